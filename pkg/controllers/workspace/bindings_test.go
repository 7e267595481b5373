// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// aDatastore is "pg", for which "shop" has the claim of aClaim.
func aDatastore(changes ...func(*v1alpha1.Datastore)) *v1alpha1.Datastore {
	ds := &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "pg", UID: "uid-of-pg", Generation: 1},
		Spec:       v1alpha1.DatastoreSpec{Driver: v1alpha1.DriverPostgres, Owner: "owner", AllowedTenants: []string{"*"}},
	}
	for _, change := range changes {
		change(ds)
	}
	return ds
}

func perClaim(ds *v1alpha1.Datastore) { ds.Spec.Roles = v1alpha1.RolesPerClaim }

// says sets a condition of a Datastore or a claim.
func says[T any](conditions func(T) *[]metav1.Condition, conditionType string, status metav1.ConditionStatus, reason string) func(T) {
	return func(object T) {
		meta.SetStatusCondition(conditions(object), metav1.Condition{Type: conditionType, Status: status, Reason: reason, ObservedGeneration: 1})
	}
}

func ofDatastore(ds *v1alpha1.Datastore) *[]metav1.Condition    { return &ds.Status.Conditions }
func ofClaim(claim *v1alpha1.ResourceClaim) *[]metav1.Condition { return &claim.Status.Conditions }

// aClaim was verified, and stands in the fixture, in which the owners' keys are not read.
func aClaim(changes ...func(*v1alpha1.ResourceClaim)) *v1alpha1.ResourceClaim {
	claim := &v1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "shop-pg", UID: "uid-of-claim", Generation: 1},
		Spec: v1alpha1.ResourceClaimSpec{
			Datastore: "pg", Workspace: "shop", Permission: v1alpha1.PermissionReadWrite, GrantedBy: "owner", GrantedAt: "1999-12-31T00:00:00Z",
			Signature: strings.Repeat("0", 128),
		},
		Status: v1alpha1.ResourceClaimStatus{VerifiedOwner: "owner"},
	}
	says(ofClaim, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonClaimVerified)(claim)
	for _, change := range changes {
		change(claim)
	}
	return claim
}

// managed is a Secret with credentials of a Datastore or of a claim.
func managed(name string, owner metav1.Object, kind string, changes ...func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			Annotations:     map[string]string{v1alpha1.AnnotationRevision: "r1"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.SchemeGroupVersion.WithKind(kind))},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "formspec-" + strings.ToLower(kind), Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1("{}"),
			}},
		},
		Data: map[string][]byte{"uri": []byte("postgres://u:p@h/d"), "user": []byte("u")},
	}
	for _, change := range changes {
		change(secret)
	}
	return secret
}

func TestCredentialsInForce(t *testing.T) {
	const ofPG, ofTheClaim = "formspec-datastore-pg", "formspec-claim-shop-pg"
	pg, another := managed(ofPG, aDatastore(), "Datastore"), aDatastore(func(ds *v1alpha1.Datastore) { ds.UID = "another" })
	failed := says(ofDatastore, v1alpha1.ConditionValidated, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	probing := says(ofDatastore, v1alpha1.ConditionValidated, metav1.ConditionUnknown, v1alpha1.ReasonProbing)
	noRole := says(ofClaim, v1alpha1.ConditionRoleReady, metav1.ConditionFalse, v1alpha1.ReasonRoleRefused)
	blank := func(s *corev1.Secret) { s.Data, s.Annotations = nil, nil }
	for name, row := range map[string]struct {
		datastore *v1alpha1.Datastore
		claim     *v1alpha1.ResourceClaim
		secrets   []runtime.Object
		want      string // the Secret's name
		awaited   bool
	}{
		"there is no datastore":                {nil, aClaim(), []runtime.Object{pg}, "", false},
		"the datastore's":                      {aDatastore(), aClaim(), []runtime.Object{pg}, ofPG, false},
		"the datastore's, though it fails now": {aDatastore(failed), aClaim(), []runtime.Object{pg}, ofPG, false},
		"nobody has looked yet":                {aDatastore(), aClaim(), nil, "", true},
		"it is being probed":                   {aDatastore(probing), aClaim(), nil, "", true},
		"it failed":                            {aDatastore(failed), aClaim(), nil, "", false},
		"somebody else's has the name":         {aDatastore(), aClaim(), []runtime.Object{managed(ofPG, another, "Datastore")}, "", true},
		"one without a revision":               {aDatastore(), aClaim(), []runtime.Object{managed(ofPG, aDatastore(), "Datastore", blank)}, "", true},
		"the claim's":                          {aDatastore(perClaim), aClaim(), []runtime.Object{pg, managed(ofTheClaim, aClaim(), "ResourceClaim")}, ofTheClaim, false},
		"never the datastore's instead":        {aDatastore(perClaim), aClaim(), []runtime.Object{pg}, "", true},
		"what is left of a login":              {aDatastore(perClaim), aClaim(noRole), []runtime.Object{pg, managed(ofTheClaim, aClaim(), "ResourceClaim", blank)}, "", false},
		"the login cannot be made":             {aDatastore(perClaim), aClaim(noRole), []runtime.Object{pg}, "", false},
		"another claim's of that name":         {aDatastore(perClaim), aClaim(), []runtime.Object{managed(ofTheClaim, another, "ResourceClaim")}, "", true},
		"redis knows no roles": {
			aDatastore(perClaim, func(ds *v1alpha1.Datastore) { ds.Spec.Driver = v1alpha1.DriverRedis }), aClaim(), []runtime.Object{pg}, ofPG, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			for _, secret := range row.secrets {
				objects = append(objects, secret.DeepCopyObject())
			}
			run(t, objects, func(f *fixture) {
				if row.datastore != nil {
					f.add(row.datastore.DeepCopy())
				}
				synctest.Wait()
				secret, awaited, err := f.inForce(row.claim, nil)
				got := ""
				if secret != nil {
					got = secret.Name
				}
				if err != nil || got != row.want || awaited != row.awaited {
					t.Errorf("it is %q, awaited %v (%v), want %q and %v", got, awaited, err, row.want, row.awaited)
				}
			})
		})
	}
}

// A switch to roles PerClaim takes nothing away: the workspace keeps what it has until the login is there, and then there is one rollout.
func TestRolesPerClaimForAWorkspaceThatRuns(t *testing.T) {
	run(t, []runtime.Object{managed("formspec-datastore-pg", aDatastore(), "Datastore")}, func(f *fixture) {
		f.add(aClass())
		f.add(aDatastore())
		f.add(aClaim())
		f.add(aWorkspace())
		f.settle()
		secret := func() *corev1.Secret {
			return live(f.kube.Tracker(), corev1.SchemeGroupVersion.WithResource("secrets"), "bank", childName+"-db-credentials").(*corev1.Secret)
		}
		template := func() corev1.PodTemplateSpec {
			return live(f.kube.Tracker(), deploymentsResource, "bank", childName).(*appsv1.Deployment).Spec.Template
		}
		before, pods := secret(), template()
		if string(before.Data["FORMSPEC_DATASTORE_PG_USER"]) != "u" {
			t.Fatalf("it begins with %d keys", len(before.Data))
		}

		noRole := says(ofClaim, v1alpha1.ConditionRoleReady, metav1.ConditionFalse, v1alpha1.ReasonRoleRefused)
		for resource, object := range map[string]metav1.Object{
			"datastores": aDatastore(perClaim, func(ds *v1alpha1.Datastore) { ds.Generation = 2 }), "resourceclaims": aClaim(noRole),
		} {
			object.SetResourceVersion(f.next())
			if err := f.server.formspec.Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource(resource), object.(runtime.Object), "bank"); err != nil {
				t.Fatal(err)
			}
		}
		f.sent()
		f.settle()
		if !maps.EqualFunc(secret().Data, before.Data, bytes.Equal) || !equality.Semantic.DeepEqual(template(), pods) {
			t.Errorf("it has %d keys of %d, and its pods changed: %v", len(secret().Data), len(before.Data), !equality.Semantic.DeepEqual(template(), pods))
		}

		login := func(s *corev1.Secret) {
			s.Data = map[string][]byte{"uri": []byte("postgres://claim_x:p@h/d"), "user": []byte("claim_x")}
			s.Annotations[v1alpha1.AnnotationRevision] = "r2"
		}
		if err := f.kube.Tracker().Add(managed("formspec-claim-shop-pg", aClaim(), "ResourceClaim", login)); err != nil {
			t.Fatal(err)
		}
		f.settle()
		if got := string(secret().Data["FORMSPEC_DATASTORE_PG_USER"]); got != "claim_x" || equality.Semantic.DeepEqual(template(), pods) {
			t.Errorf("the user is %q once there is a login", got)
		}
	})
}

// What is created together is one write for each child, with everything in it.
func TestTheFirstDeploymentWaitsForCredentials(t *testing.T) {
	run(t, nil, func(f *fixture) {
		f.add(aClass())
		f.add(aDatastore())
		f.add(aClaim())
		f.add(aWorkspace(func(ws *v1alpha1.Workspace) { ws.CreationTimestamp = metav1.Now() }))
		after, err := f.syncOnce()
		if err != nil || after != 2*time.Second {
			t.Errorf("it looks again after %s (%v)", after, err)
		}
		f.expectRequests()
		f.woken()

		if err := f.kube.Tracker().Add(managed("formspec-datastore-pg", aDatastore(), "Datastore")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := f.woken(); !slices.Equal(got, []string{"bank/shop"}) {
			t.Errorf("the credentials wake %q", got)
		}
		if _, err := f.syncOnce(); err != nil {
			t.Fatal(err)
		}
		d := live(f.kube.Tracker(), deploymentsResource, "bank", childName).(*appsv1.Deployment)
		if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "FORMSPEC_DATASTORE_PG_DSN" }) {
			t.Error("the first Deployment has no credentials")
		}
		f.sent()
		f.settle()
		f.expectRequests()
	})
}

func TestTheFirstDeploymentDoesNotWaitForEver(t *testing.T) {
	run(t, nil, func(f *fixture) {
		f.add(aClass())
		f.add(aDatastore())
		f.add(aClaim())
		f.add(aWorkspace(func(ws *v1alpha1.Workspace) { ws.CreationTimestamp = metav1.Now() }))
		after, _ := f.syncOnce()
		<-time.After(after)
		if _, err := f.syncOnce(); err != nil {
			t.Fatal(err)
		}
		if live(f.kube.Tracker(), deploymentsResource, "bank", childName) == nil {
			t.Error("there is no Deployment")
		}
	})
}

func TestWhatOfClaimsAndDatastoresWakesAWorkspace(t *testing.T) {
	type handlers struct {
		claims     cache.TypedResourceEventHandler[*v1alpha1.ResourceClaim]
		datastores cache.TypedResourceEventHandler[*v1alpha1.Datastore]
		secrets    cache.TypedResourceEventHandler[*corev1.Secret]
	}
	edited := func(c *v1alpha1.ResourceClaim) { c.Generation++ }
	elsewhere := func(c *v1alpha1.ResourceClaim) { c.Generation, c.Spec.Workspace = 2, "other" }
	lister := aWorkspace(func(ws *v1alpha1.Workspace) {
		ws.Name, ws.UID, ws.Spec.Datastores = "lister", "uid-of-lister", []v1alpha1.DatastoreReference{{Name: "pg"}}
	})
	shop, both := map[string]urgency{"bank/shop": now}, map[string]urgency{"bank/shop": now, "bank/lister": now}
	for name, row := range map[string]struct {
		do   func(handlers)
		want map[string]urgency
	}{
		"a claim comes":          {func(h handlers) { h.claims.OnAdd(aClaim(), false) }, shop},
		"a claim at the start":   {func(h handlers) { h.claims.OnAdd(aClaim(), true) }, nil},
		"a claim is edited":      {func(h handlers) { h.claims.OnUpdate(aClaim(), aClaim(edited)) }, shop},
		"a claim is for another": {func(h handlers) { h.claims.OnUpdate(aClaim(), aClaim(elsewhere)) }, map[string]urgency{"bank/shop": now, "bank/other": now}},
		"the verdict on a claim": {func(h handlers) {
			h.claims.OnUpdate(aClaim(), aClaim(says(ofClaim, "Ready", metav1.ConditionFalse, "Any")))
		}, nil},
		"a claim goes": {func(h handlers) {
			h.claims.OnDelete(cache.DeletedObject[*v1alpha1.ResourceClaim]{OptionalObj: aClaim()})
		}, shop},
		"a datastore comes": {func(h handlers) { h.datastores.OnAdd(aDatastore(), false) }, both},
		"a datastore is edited": {func(h handlers) {
			h.datastores.OnUpdate(aDatastore(), aDatastore(func(ds *v1alpha1.Datastore) { ds.Generation++ }))
		}, both},
		"a datastore's state": {func(h handlers) {
			h.datastores.OnUpdate(aDatastore(), aDatastore(func(ds *v1alpha1.Datastore) { ds.Status.Claims++ }))
		}, nil},
		"a datastore goes": {func(h handlers) {
			h.datastores.OnDelete(cache.DeletedObject[*v1alpha1.Datastore]{OptionalObj: aDatastore()})
		}, both},
		"credentials of it":        {func(h handlers) { h.secrets.OnUpdate(&corev1.Secret{}, managed("x", aDatastore(), "Datastore")) }, shop},
		"a claim's own login":      {func(h handlers) { h.secrets.OnAdd(managed("x", aClaim(), "ResourceClaim"), false) }, shop},
		"a login of no claim":      {func(h handlers) { h.secrets.OnAdd(managed("x", aDatastore(), "ResourceClaim"), false) }, nil},
		"a Secret of another kind": {func(h handlers) { h.secrets.OnAdd(managed("x", aClaim(), "Workspace"), false) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			quietly(t, []runtime.Object{aWorkspace()}, func(f *fixture) {
				f.add(lister.DeepCopy())
				f.add(aClaim())
				synctest.Wait()
				f.woken()
				<-time.After(time.Minute)
				f.woken()
				got := f.wakes(func() { row.do(handlers{f.claimHandler(), f.datastoreHandler(), f.secretHandler()}) })
				if !maps.Equal(got, row.want) {
					t.Errorf("woken %v, want %v", got, row.want)
				}
			})
		})
	}
	quietly(t, []runtime.Object{aWorkspace()}, func(f *fixture) {
		f.add(aClaim())
		synctest.Wait()
		f.woken()
		if got := f.wakes(f.ownerKeysChanged); !maps.Equal(got, shop) {
			t.Errorf("the owners' keys wake %v, want %v", got, shop)
		}
	})
}

// In an outage of the owners' keys, what one Datastore remembers of an owner decides on what others get of all that are his.
func TestWhoIsListedWakesTheWorkspacesOfTheOwner(t *testing.T) {
	listed := aDatastore(func(ds *v1alpha1.Datastore) { ds.Name, ds.UID, ds.Status.ListedOwner = "another", "another", "owner" })
	quietly(t, []runtime.Object{aWorkspace()}, func(f *fixture) {
		ctx, cancel := context.WithCancel(f.t.Context())
		defer f.judge.Keys.Shutdown()
		defer cancel()
		f.judge.Keys.Start(ctx)
		f.add(aDatastore())
		f.add(aClaim())
		synctest.Wait()
		f.woken()
		<-time.After(time.Minute)
		f.woken()
		if got, want := f.wakes(func() { f.add(listed) }), map[string]urgency{"bank/shop": now}; !maps.Equal(got, want) {
			t.Errorf("woken %v, want %v", got, want)
		}
	})
}
