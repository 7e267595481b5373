// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	"github.com/formspec/formspec-operator/pkg/controllers/trim"
	"github.com/formspec/formspec-operator/pkg/datastore"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
)

// pg is the key of the Datastore of every test.
var pg = cache.NewObjectName("bank", "pg")

const (
	good  = "postgres://app:hunter2@db.example/bank"
	other = "postgres://app:hunter3@db.example/bank"
	wrong = "postgres://wrong:hunter4@db.example/bank"
	dead  = "postgres://app:hunter5@dead.example/bank"
)

// aDatastore is "pg", whose connection string is in the Secret "creds" under the key "dsn".
func aDatastore(changes ...func(*v1alpha1.Datastore)) *v1alpha1.Datastore {
	ds := &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "pg", UID: "uid-of-pg", Generation: 1},
		Spec: v1alpha1.DatastoreSpec{
			Driver: v1alpha1.DriverPostgres, Owner: "owner", EndpointSecretRef: v1alpha1.SecretKeyReference{Name: "creds", Key: "dsn"},
		},
	}
	for _, change := range changes {
		change(ds)
	}
	return ds
}

// fixture is a controller with informers and a pool in a bubble, over fake clientsets. Its workers do not run: a test calls sync.
type fixture struct {
	*Controller
	t        *testing.T
	kube     *kubefake.Clientset
	formspec *formspecfake.Clientset
	version  int

	mu     sync.Mutex // of what follows
	events []string
	probes []string // the users that were tried
	slow   time.Duration
}

// run gives the test a controller. What is in the endpoint Secret is the test's business.
func run(t *testing.T, ds *v1alpha1.Datastore, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := &fixture{t: t, kube: kubefake.NewClientset(), formspec: formspecfake.NewClientset(ds)}
		f.formspec.PrependReactor("update", "datastores", f.updateStatus)
		own := formspecinformers.NewSharedInformerFactoryWithOptions(f.formspec, 0, formspecinformers.WithTransform(trim.Own))
		managed := kubeinformers.NewSharedInformerFactoryWithOptions(f.kube, 0, kubeinformers.WithTransform(trim.Children(Name)),
			kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy }))
		metadata := f.metadataInformer()
		pool := datastore.NewPool(f.answer, clock.RealClock{})
		keys := ownerkeys.New(f.kube, "formspec-system")
		kinds := own.Formspec().V1alpha1()
		var err error
		f.Controller, err = New(ctx, Config{
			Client: f.kube, FormSpec: f.formspec, Datastores: kinds.Datastores(), Claims: kinds.ResourceClaims(),
			Secrets: managed.Core().V1().Secrets(), SecretMetadata: cache.NewTypedSharedIndexInformer[*metav1.PartialObjectMetadata](metadata),
			Keys: keys, Pool: pool, Recorder: f, Clock: clock.RealClock{},
		})
		if err != nil {
			t.Fatal(err)
		}
		var background sync.WaitGroup
		background.Go(func() { pool.Run(ctx) })
		background.Go(func() { metadata.RunWithContext(ctx) })
		keys.Start(ctx)
		own.StartWithContext(ctx)
		managed.StartWithContext(ctx)
		if !cache.WaitFor(ctx, "", f.synced...) {
			t.Fatal("the handlers have not seen the first lists")
		}
		synctest.Wait()
		f.woken()
		test(f)
		synctest.Wait() // a filtered watch that has something left to say does not end
		f.queue.ShutDown()
		cancel()
		own.Shutdown()
		managed.Shutdown()
		keys.Shutdown()
		background.Wait()
	})
}

// metadataInformer is of the metadata of all Secrets.
func (f *fixture) metadataInformer() cache.SharedIndexInformer {
	secrets := f.kube.CoreV1().Secrets("")
	metadataOf := func(object runtime.Object) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: object.(*corev1.Secret).ObjectMeta}
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := secrets.List(ctx, options)
			if err != nil {
				return nil, err
			}
			found := &metav1.PartialObjectMetadataList{}
			for i := range list.Items {
				found.Items = append(found.Items, *metadataOf(&list.Items[i]))
			}
			return found, nil
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watching, err := secrets.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(watching, func(event watch.Event) (watch.Event, bool) {
				if _, ok := event.Object.(*corev1.Secret); ok {
					event.Object = metadataOf(event.Object)
				}
				return event, true
			}), nil
		},
	}, f.kube), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// answer is what a probe finds: the host "dead.example" never answers, and the user "wrong" is refused.
func (f *fixture) answer(ctx context.Context, e datastore.Endpoint) datastore.Result {
	f.mu.Lock()
	f.probes = append(f.probes, e.User())
	slow := f.slow
	f.mu.Unlock()
	if e.Hosts()[0].Host == "dead.example" {
		slow = 5 * time.Second
	}
	select {
	case <-ctx.Done():
	case <-time.After(slow):
	}
	switch {
	case e.Hosts()[0].Host == "dead.example":
		return datastore.Result{Reason: v1alpha1.ReasonUnreachable, Message: "dead.example: no answer"}
	case e.User() == "wrong":
		return datastore.Result{Reason: v1alpha1.ReasonAuthenticationFailed, Message: "db.example: the server refuses the user or the password"}
	default:
		return datastore.Result{Reason: v1alpha1.ReasonValidated, Message: "db.example: the server accepts the credentials", Superuser: e.User() == "super"}
	}
}

// Eventf makes the fixture an event recorder.
func (f *fixture) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, eventType+" "+reason+" "+fmt.Sprintf(note, args...))
}

// updateStatus writes the status only, which the fake clientset does not care about.
func (f *fixture) updateStatus(action clienttesting.Action) (bool, runtime.Object, error) {
	update, ok := action.(clienttesting.UpdateAction)
	if !ok || action.GetSubresource() != "status" {
		return false, nil, nil
	}
	found, err := f.formspec.Tracker().Get(action.GetResource(), "bank", "pg")
	if err != nil {
		return true, nil, err
	}
	ds := found.DeepCopyObject().(*v1alpha1.Datastore)
	ds.Status = update.GetObject().(*v1alpha1.Datastore).Status
	return true, ds, f.formspec.Tracker().Update(action.GetResource(), ds, "bank")
}

// secret puts these keys and values into the endpoint Secret, as a user does.
func (f *fixture) secret(data ...string) {
	f.t.Helper()
	f.version++
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "creds", UID: "uid-of-creds", ResourceVersion: strconv.Itoa(f.version)},
		Data:       map[string][]byte{},
	}
	for i := 0; i < len(data); i += 2 {
		secret.Data[data[i]] = []byte(data[i+1])
	}
	resource := corev1.SchemeGroupVersion.WithResource("secrets")
	if err := f.kube.Tracker().Update(resource, secret, "bank"); err != nil {
		f.must(f.kube.Tracker().Add(secret))
	}
	synctest.Wait()
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// syncOnce runs one sync, and what it starts, and lets the caches catch up. It returns the requests.
func (f *fixture) syncOnce() (requests []string, after time.Duration) {
	f.t.Helper()
	synctest.Wait()
	f.kube.ClearActions()
	f.formspec.ClearActions()
	after, err := f.sync(f.t.Context(), pg)
	f.must(err)
	for _, action := range slices.Concat(f.kube.Actions(), f.formspec.Actions()) {
		if verb := action.GetVerb(); verb != "list" && verb != "watch" {
			requests = append(requests, strings.TrimSuffix(verb+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/"))
		}
	}
	synctest.Wait()
	return requests, after
}

// settle syncs as long as something wakes the key, and once at least.
func (f *fixture) settle() {
	f.t.Helper()
	for range 10 {
		f.syncOnce()
		if len(f.woken()) == 0 {
			return
		}
	}
	f.t.Fatal("the datastore never comes to rest")
}

// woken are the keys that are in the queue now, which is empty afterwards.
func (f *fixture) woken() []string {
	var keys []string
	for f.queue.Len() > 0 {
		key, _ := f.queue.Get()
		f.queue.Done(key)
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	return keys
}

func (f *fixture) datastore() *v1alpha1.Datastore {
	f.t.Helper()
	ds, err := f.formspec.FormspecV1alpha1().Datastores("bank").Get(f.t.Context(), "pg", metav1.GetOptions{})
	f.must(err)
	return ds
}

// change is what a user does to the Datastore.
func (f *fixture) change(do func(*v1alpha1.Datastore)) {
	f.t.Helper()
	ds := f.datastore()
	do(ds)
	_, err := f.formspec.FormspecV1alpha1().Datastores("bank").Update(f.t.Context(), ds, metav1.UpdateOptions{})
	f.must(err)
	synctest.Wait()
}

// managed is the managed Secret. Nil: there is none.
func (f *fixture) managed() *corev1.Secret {
	secret, err := f.kube.CoreV1().Secrets("bank").Get(f.t.Context(), "formspec-datastore-pg", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return secret
}

// expect compares the condition Validated, and looks for passwords where everybody can read.
func (f *fixture) expect(status metav1.ConditionStatus, reason string, says ...string) {
	f.t.Helper()
	c := meta.FindStatusCondition(f.datastore().Status.Conditions, v1alpha1.ConditionValidated)
	if c == nil || c.Status != status || c.Reason != reason {
		f.t.Fatalf("Validated is %+v, want %s %s", c, status, reason)
	}
	for _, text := range says {
		if !strings.Contains(c.Message, text) {
			f.t.Errorf("the message is %q, want %q in it", c.Message, text)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if text := fmt.Sprint(f.datastore().Status, f.events); strings.Contains(text, "hunter") {
		f.t.Errorf("a password is in the status or in an event: %s", text)
	}
}

// expectProbes compares whose credentials were tried since the last time.
func (f *fixture) expectProbes(users ...string) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.probes, users) {
		f.t.Errorf("probed %q, want %q", f.probes, users)
	}
	f.probes = nil
}
