// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/grants"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	"github.com/formspec/formspec-operator/pkg/controllers/trim"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	reconcile "github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

var bankClaim = cache.NewObjectName("bank", "shop-pg")

// fakeRoles is a server that does what it is told, or fails.
type fakeRoles struct {
	calls     []string
	passwords []string
	fails     error
	hangs     bool
}

func (r *fakeRoles) Ensure(ctx context.Context, admin datastore.Endpoint, login roles.Login) (datastore.Endpoint, error) {
	r.calls = append(r.calls, fmt.Sprintf("ensure %s %s by %s", login.Claim, login.Permission, admin.User()))
	r.passwords = append(r.passwords, login.Password)
	if r.hangs {
		<-ctx.Done()
		return datastore.Endpoint{}, ctx.Err()
	}
	if r.fails != nil {
		return datastore.Endpoint{}, r.fails
	}
	return admin.WithLogin(login.Name(), login.Password), nil
}

func (r *fakeRoles) Drop(_ context.Context, admin datastore.Endpoint, login roles.Login) error {
	r.calls = append(r.calls, fmt.Sprintf("drop %s by %s", login.Claim, admin.User()))
	return r.fails
}

// did are the calls since the last time.
func (r *fakeRoles) did() []string {
	calls := r.calls
	r.calls = nil
	return calls
}

type fixture struct {
	*Controller
	*fakeRoles
	t        *testing.T
	kube     *kubefake.Clientset
	formspec *formspecfake.Clientset
	events   []string
}

// Eventf makes the fixture an event recorder.
func (f *fixture) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	f.events = append(f.events, eventType+" "+reason+" "+fmt.Sprintf(note, args...))
}

// ownerKey signs what aClaim makes.
var ownerKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize)))

// aDatastore is "pg" with roles PerClaim.
func aDatastore(changes ...func(*v1alpha1.Datastore)) *v1alpha1.Datastore {
	ds := &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "pg", UID: "uid-of-pg", Generation: 1},
		Spec: v1alpha1.DatastoreSpec{
			Driver: v1alpha1.DriverPostgres, Owner: "owner", AllowedTenants: []string{"*"}, Roles: v1alpha1.RolesPerClaim,
			OwnerPublicKey: v1alpha1.FormatPublicKey(ownerKey.Public().(ed25519.PublicKey)),
		},
	}
	for _, change := range changes {
		change(ds)
	}
	return ds
}

func aWorkspace() *v1alpha1.Workspace {
	return &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "shop", UID: "uid-of-shop"}}
}

// aClaim is signed after the changes, and was granted an hour ago unless they say otherwise.
func aClaim(name string, changes ...func(*v1alpha1.ResourceClaim)) *v1alpha1.ResourceClaim {
	claim := &v1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, UID: types.UID("uid-of-" + name), Generation: 1},
		Spec: v1alpha1.ResourceClaimSpec{
			Datastore: "pg", Workspace: "shop", Permission: v1alpha1.PermissionReadWrite, GrantedBy: "owner", GrantedAt: ago(time.Hour),
		},
	}
	for _, change := range changes {
		change(claim)
	}
	claim.Spec.Signature, _ = v1alpha1.SignGrant(claim, "", ownerKey)
	return claim
}

func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }

// run gives the test a controller in a bubble, with an approved claim for a datastore that has roles PerClaim. Its workers do not run: a test
// calls sync.
func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	runWith(t, func() []runtime.Object { return []runtime.Object{aDatastore(), aClaim("shop-pg"), aWorkspace()} }, test)
}

// runWith makes the objects in the bubble, where it is another time.
func runWith(t *testing.T, objects func() []runtime.Object, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := &fixture{fakeRoles: &fakeRoles{}, t: t}
		f.formspec = formspecfake.NewClientset(objects()...)
		f.formspec.PrependReactor("update", "resourceclaims", f.updateStatus)
		f.kube = kubefake.NewClientset(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "bank", Name: "formspec-datastore-pg",
				Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelDatastore: "pg"},
				Annotations:     map[string]string{v1alpha1.AnnotationRevision: "admin-1"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(aDatastore(), v1alpha1.SchemeGroupVersion.WithKind("Datastore"))},
				ManagedFields:   appliedBy("formspec-datastore"),
			},
			Data: map[string][]byte{"uri": []byte("postgres://admin:topsecret@db.example/bank")},
		})
		own := formspecinformers.NewSharedInformerFactoryWithOptions(f.formspec, 0, formspecinformers.WithTransform(trim.Own))
		children := kubeinformers.NewSharedInformerFactoryWithOptions(f.kube, 0, kubeinformers.WithTransform(trim.Children(Name, "formspec-datastore", "formspec-workspace")))
		kinds := own.Formspec().V1alpha1()
		keys := ownerkeys.New(f.kube, "formspec-system")
		judge := grants.NewJudge(keys, reconcile.Settings{MinGrantVersion: 1, TrustDatastoreKeys: true}, kinds.ResourceClaims(), kinds.Datastores(), kinds.Workspaces())
		var err error
		f.Controller, err = New(ctx, Config{
			Client: f.kube, FormSpec: f.formspec, Claims: kinds.ResourceClaims(), Datastores: kinds.Datastores(), Workspaces: kinds.Workspaces(),
			Secrets: children.Core().V1().Secrets(), Deployments: children.Apps().V1().Deployments(), Judge: judge, Roles: f.fakeRoles, Recorder: f, Clock: clock.RealClock{},
		})
		if err != nil {
			t.Fatal(err)
		}
		keys.Start(ctx)
		own.StartWithContext(ctx)
		children.StartWithContext(ctx)
		if !cache.WaitFor(ctx, "", f.synced...) {
			t.Fatal("the handlers have not seen the first lists")
		}
		synctest.Wait()
		f.woken()
		defer f.queue.ShutDown()
		defer f.logins.run(ctx)()
		test(f)
		cancel()
		own.Shutdown()
		children.Shutdown()
		keys.Shutdown()
	})
}

// updateStatus writes the status only, which the fake clientset does not care about.
func (f *fixture) updateStatus(action clienttesting.Action) (bool, runtime.Object, error) {
	update, ok := action.(clienttesting.UpdateAction)
	if !ok || action.GetSubresource() != "status" {
		return false, nil, nil
	}
	found, err := f.formspec.Tracker().Get(action.GetResource(), "bank", update.GetObject().(*v1alpha1.ResourceClaim).Name)
	if err != nil {
		return true, nil, err
	}
	claim := found.DeepCopyObject().(*v1alpha1.ResourceClaim)
	claim.Status = update.GetObject().(*v1alpha1.ResourceClaim).Status
	return true, claim, f.formspec.Tracker().Update(action.GetResource(), claim, "bank")
}

// syncOnce runs one sync, and what it starts, and lets the caches catch up. It returns the writes.
func (f *fixture) syncOnce() (writes []string, after time.Duration) {
	f.t.Helper()
	synctest.Wait()
	f.kube.ClearActions()
	f.formspec.ClearActions()
	after, err := f.sync(f.t.Context(), bankClaim)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, action := range f.formspec.Actions() {
		writes = append(writes, strings.TrimSuffix(action.GetVerb()+" "+action.GetResource().Resource+"/"+action.GetSubresource(), "/"))
	}
	for _, action := range f.kube.Actions() {
		if !slices.Contains([]string{"list", "watch"}, action.GetVerb()) {
			writes = append(writes, action.GetVerb()+" "+action.GetResource().Resource)
		}
	}
	synctest.Wait()
	return slices.DeleteFunc(writes, func(w string) bool { return strings.HasPrefix(w, "list") || strings.HasPrefix(w, "watch") }), after
}

// settle syncs until nothing is written any more.
func (f *fixture) settle() {
	f.t.Helper()
	silent := 0
	for range 8 {
		if writes, _ := f.syncOnce(); len(writes) > 0 {
			silent = 0
		} else if silent++; silent == 2 { // the first may have started something
			return
		}
	}
	f.t.Fatal("the claim never comes to rest")
}

// woken are the keys that are in the queue now, which is empty afterwards.
func (f *fixture) woken() []string {
	var keys []string
	for f.queue.Len() > 0 {
		key, _ := f.queue.Get()
		f.queue.Done(key)
		keys = append(keys, key.Name)
	}
	slices.Sort(keys)
	return keys
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) claim() *v1alpha1.ResourceClaim {
	f.t.Helper()
	claim, err := f.formspec.FormspecV1alpha1().ResourceClaims("bank").Get(f.t.Context(), "shop-pg", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return claim
}

// change is what a user does to the claim.
func (f *fixture) change(do func(*v1alpha1.ResourceClaim)) {
	f.t.Helper()
	claim := f.claim()
	do(claim)
	if _, err := f.formspec.FormspecV1alpha1().ResourceClaims("bank").Update(f.t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
}

func (f *fixture) secret() *corev1.Secret {
	f.t.Helper()
	secret, err := f.kube.CoreV1().Secrets("bank").Get(f.t.Context(), "formspec-claim-shop-pg", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return secret
}

func (f *fixture) expectRole(status metav1.ConditionStatus, reason string) {
	f.t.Helper()
	c := meta.FindStatusCondition(f.claim().Status.Conditions, v1alpha1.ConditionRoleReady)
	if c == nil || c.Status != status || c.Reason != reason {
		f.t.Errorf("RoleReady is %+v, want %s %s", c, status, reason)
	}
	for _, password := range append(f.passwords, "topsecret") {
		if strings.Contains(fmt.Sprint(f.claim().Status, f.events), password) {
			f.t.Error("a password is in the status or in an event")
		}
	}
}

func (f *fixture) expectCalls(want ...string) {
	f.t.Helper()
	if got := f.did(); !slices.Equal(got, want) {
		f.t.Errorf("calls\n got %q\nwant %q", got, want)
	}
}

// appliedBy is how a cache knows what a controller applied.
func appliedBy(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1("{}")}}
}
