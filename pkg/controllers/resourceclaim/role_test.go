// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"crypto/ed25519"
	"errors"
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

// run gives the test a controller in a bubble, with an approved claim for a datastore that has roles PerClaim. Its workers do not run: a test
// calls sync.
func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize)))
		ds := &v1alpha1.Datastore{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "pg", UID: "uid-of-pg"},
			Spec: v1alpha1.DatastoreSpec{
				Driver: v1alpha1.DriverPostgres, Owner: "owner", AllowedTenants: []string{"*"}, Roles: v1alpha1.RolesPerClaim,
				OwnerPublicKey: v1alpha1.FormatPublicKey(key.Public().(ed25519.PublicKey)),
			},
		}
		claim := &v1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "shop-pg", UID: "uid-of-claim", Generation: 1},
			Spec: v1alpha1.ResourceClaimSpec{
				Datastore: "pg", Workspace: "shop", Permission: v1alpha1.PermissionReadWrite, GrantedBy: "owner",
				GrantedAt: time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
			},
		}
		var err error
		if claim.Spec.Signature, err = v1alpha1.SignGrant(claim, "", key); err != nil {
			t.Fatal(err)
		}
		f := &fixture{fakeRoles: &fakeRoles{}, t: t}
		f.formspec = formspecfake.NewClientset(ds, claim, &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "shop"}})
		f.formspec.PrependReactor("update", "resourceclaims", f.updateStatus)
		f.kube = kubefake.NewClientset(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "bank", Name: "formspec-datastore-pg",
				Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelDatastore: "pg"},
				Annotations:     map[string]string{v1alpha1.AnnotationRevision: "admin-1"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, v1alpha1.SchemeGroupVersion.WithKind("Datastore"))},
			},
			Data: map[string][]byte{"uri": []byte("postgres://admin:topsecret@db.example/bank")},
		})
		own := formspecinformers.NewSharedInformerFactoryWithOptions(f.formspec, 0, formspecinformers.WithTransform(trim.Own))
		children := kubeinformers.NewSharedInformerFactoryWithOptions(f.kube, 0, kubeinformers.WithTransform(trim.Children(Name)))
		kinds := own.Formspec().V1alpha1()
		keys := ownerkeys.New(f.kube, "formspec-system")
		judge := grants.NewJudge(keys, reconcile.Settings{MinGrantVersion: 1, TrustDatastoreKeys: true}, kinds.ResourceClaims(), kinds.Datastores(), kinds.Workspaces())
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
	found, err := f.formspec.Tracker().Get(action.GetResource(), "bank", "shop-pg")
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

func TestLoginOfAClaim(t *testing.T) {
	run(t, func(f *fixture) {
		// The finalizer comes before anything is made.
		if writes, _ := f.syncOnce(); !slices.Equal(writes, []string{"patch resourceclaims", "update resourceclaims/status"}) {
			t.Errorf("writes %q", writes)
		}
		f.expectCalls("ensure shop-pg read-write by admin")
		f.expectRole(metav1.ConditionUnknown, v1alpha1.ReasonRolePending)
		f.settle()
		f.expectRole(metav1.ConditionTrue, v1alpha1.ReasonRoleInForce)
		f.expectCalls()
		first := f.secret()
		if string(first.Data["password"]) != f.passwords[0] || first.Data["user"] == nil || first.Annotations[v1alpha1.AnnotationRevision] == "" {
			t.Errorf("the Secret has the keys %d and annotations %v", len(first.Data), first.Annotations)
		}
		if f.logins.last(bankClaim, "uid-of-claim") != nil {
			t.Error("the password stays in memory")
		}

		// A rotation makes one new password.
		f.change(func(c *v1alpha1.ResourceClaim) {
			c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: "1"}
		})
		f.settle()
		f.settle()
		f.expectCalls("ensure shop-pg read-write by admin")
		second := f.secret()
		if string(second.Data["password"]) != f.passwords[1] || f.passwords[1] == f.passwords[0] ||
			second.Annotations[v1alpha1.AnnotationRevision] == first.Annotations[v1alpha1.AnnotationRevision] {
			t.Error("the password or the revision is the old one")
		}

		// What ends the grant ends the login, and the claim is let go.
		f.change(func(c *v1alpha1.ResourceClaim) { c.Spec.Signature = "" })
		f.settle()
		f.expectCalls("drop shop-pg by admin")
		if last := f.secret(); len(last.Data) > 0 || last.Annotations[v1alpha1.AnnotationRevision] != "" || len(f.claim().Finalizers) > 0 {
			t.Errorf("%d keys and the finalizers %q are left", len(last.Data), f.claim().Finalizers)
		}
	})
}

func TestLoginThatCannotBeMade(t *testing.T) {
	run(t, func(f *fixture) {
		f.fails = &datastore.Error{Reason: v1alpha1.ReasonRoleRefused, Message: "the endpoint's user may not manage roles"}
		f.settle()
		f.expectRole(metav1.ConditionFalse, v1alpha1.ReasonRoleRefused)
		f.expectCalls("ensure shop-pg read-write by admin")
		if _, after := f.syncOnce(); after != 5*time.Second {
			t.Errorf("it is tried again after %s", after)
		}
		// An error of another kind may hold anything.
		f.fails = errors.New("oops: topsecret")
		<-time.After(5 * time.Second)
		f.settle()
		f.expectRole(metav1.ConditionFalse, v1alpha1.ReasonInternalError)
		f.did()

		f.fails, f.hangs = nil, true
		<-time.After(10 * time.Second)
		f.syncOnce()
		f.expectCalls("ensure shop-pg read-write by admin")
		f.syncOnce()
		f.expectCalls() // one at a time
		<-time.After(workDeadline)
		f.hangs = false
		<-time.After(time.Minute)
		f.settle()
		f.expectRole(metav1.ConditionTrue, v1alpha1.ReasonRoleInForce)
	})
}

func TestDeletedClaimDoesNotWaitForADeadServer(t *testing.T) {
	run(t, func(f *fixture) {
		f.settle()
		f.did()
		f.fails = &datastore.Error{Reason: v1alpha1.ReasonUnreachable, Message: "no answer"}
		f.change(func(c *v1alpha1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		f.settle()
		f.expectCalls("drop shop-pg by admin")
		f.expectRole(metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
		f.events = nil
		<-time.After(time.Minute)
		f.syncOnce()
		if len(f.claim().Finalizers) > 0 || len(f.events) == 0 || !strings.HasPrefix(f.events[0], "Warning RoleLeftBehind the login claim_shop_pg_") {
			t.Errorf("finalizers %q, events %q", f.claim().Finalizers, f.events)
		}
	})
}
