// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// two are the claims "a" and "b" of one workspace for one datastore, and "c" for another datastore. All were looked at before.
func two() []runtime.Object {
	return []runtime.Object{
		aDatastore(), aWorkspace(), aClaim("a", seen), aClaim("b", seen, withLogin), aClaim("c", seen, func(c *v1alpha1.ResourceClaim) { c.Spec.Datastore = "q" }),
	}
}

func seen(c *v1alpha1.ResourceClaim)      { c.Status.ObservedGeneration = 1 }
func withLogin(c *v1alpha1.ResourceClaim) { c.Finalizers = []string{v1alpha1.RoleFinalizer} }

func (f *fixture) expectWoken(want ...string) {
	f.t.Helper()
	synctest.Wait()
	if got := f.woken(); !slices.Equal(got, want) {
		f.t.Errorf("woken %q, want %q", got, want)
	}
}

func TestWhatHappensToAClaimWakesItAndItsRivals(t *testing.T) {
	both := []string{"a", "b"}
	for name, row := range map[string]struct {
		change func(*v1alpha1.ResourceClaim)
		want   []string
	}{
		"its spec":         {func(c *v1alpha1.ResourceClaim) { c.Generation++ }, both},
		"it is another":    {func(c *v1alpha1.ResourceClaim) { c.UID = "another" }, both},
		"its deletion":     {func(c *v1alpha1.ResourceClaim) { c.DeletionTimestamp = new(metav1.Now()) }, both},
		"where it belongs": {func(c *v1alpha1.ResourceClaim) { c.Generation, c.Spec.Datastore = 2, "q" }, []string{"a", "b", "c"}},
		"its finalizers":   {withLogin, []string{"a"}},
		"a rotation": {func(c *v1alpha1.ResourceClaim) {
			c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: "1"}
		}, []string{"a"}},
		"its status":              {func(c *v1alpha1.ResourceClaim) { c.Status.ObservedGeneration = 9 }, nil},
		"a label":                 {func(c *v1alpha1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }, nil},
		"what we wrote ourselves": {func(c *v1alpha1.ResourceClaim) { c.ResourceVersion, c.Finalizers = "100", []string{"x"} }, nil},
		"that, with a user's":     {func(c *v1alpha1.ResourceClaim) { c.ResourceVersion, c.Generation = "100", 2 }, both},
		"that, with a rotation": {func(c *v1alpha1.ResourceClaim) {
			c.ResourceVersion, c.Annotations = "100", map[string]string{v1alpha1.AnnotationRotateCredentials: "1"}
		}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			runWith(t, two, func(f *fixture) {
				f.memory.Wrote(cache.NewObjectName("bank", "a"), behind("7"), "100")
				f.claimHandler().OnUpdate(aClaim("a", seen), aClaim("a", seen, row.change))
				f.expectWoken(row.want...)
			})
		})
	}
	runWith(t, two, func(f *fixture) {
		f.claimHandler().OnAdd(aClaim("a", seen), true)
		f.expectWoken(both...)
		f.claimHandler().OnDelete(cache.DeletedObject[*v1alpha1.ResourceClaim]{OptionalObj: aClaim("gone", seen)})
		f.expectWoken("a", "b", "gone")
		f.claimHandler().OnDelete(cache.DeletedObject[*v1alpha1.ResourceClaim]{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "bank/gone"}})
		f.expectWoken("gone")
	})
}

func TestANewClaimWaitsAMomentForWhatItNames(t *testing.T) {
	for name, row := range map[string]struct {
		objects []runtime.Object
		waits   bool
	}{
		"everything is there":     {[]runtime.Object{aDatastore(), aWorkspace()}, false},
		"there is no Workspace":   {[]runtime.Object{aDatastore()}, true},
		"there is no Datastore":   {[]runtime.Object{aWorkspace()}, true},
		"there is nothing at all": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			runWith(t, func() []runtime.Object { return row.objects }, func(f *fixture) {
				f.must(f.formspec.Tracker().Add(aClaim("new")))
				if !row.waits {
					f.expectWoken("new")
					return
				}
				f.expectWoken()
				<-time.After(arrival)
				f.expectWoken("new")
			})
		})
	}
	runWith(t, func() []runtime.Object { return []runtime.Object{aClaim("new")} }, func(f *fixture) {
		<-time.After(arrival)
		f.expectWoken("new")
		f.must(f.formspec.Tracker().Add(aDatastore()))
		f.expectWoken()
		f.must(f.formspec.Tracker().Add(aWorkspace()))
		f.expectWoken("new") // at once
	})
}

func TestWhatHappensToADatastoreWakesItsClaims(t *testing.T) {
	both := []string{"a", "b"}
	for name, row := range map[string]struct {
		change func(*v1alpha1.Datastore)
		want   []string
	}{
		"its spec":                {func(ds *v1alpha1.Datastore) { ds.Generation++ }, both},
		"it is another":           {func(ds *v1alpha1.Datastore) { ds.UID = "another" }, both},
		"its deletion":            {func(ds *v1alpha1.Datastore) { ds.DeletionTimestamp = new(metav1.Now()) }, both},
		"how it is":               {func(ds *v1alpha1.Datastore) { ds.Status.Claims++ }, nil},
		"its label or annotation": {func(ds *v1alpha1.Datastore) { ds.Labels = map[string]string{"a": "b"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			runWith(t, two, func(f *fixture) {
				f.datastoreHandler().OnUpdate(aDatastore(), aDatastore(row.change))
				f.expectWoken(row.want...)
			})
		})
	}
	runWith(t, two, func(f *fixture) {
		f.datastoreHandler().OnAdd(aDatastore(), true) // every claim wakes at the start anyway
		f.expectWoken()
		f.datastoreHandler().OnAdd(aDatastore(), false)
		f.expectWoken(both...)
		f.datastoreHandler().OnDelete(cache.DeletedObject[*v1alpha1.Datastore]{OptionalObj: aDatastore()})
		f.expectWoken(both...)
		f.workspaceHandler().OnAdd(aWorkspace(), true)
		f.workspaceHandler().OnUpdate(aWorkspace(), aWorkspace())
		f.expectWoken()
		f.workspaceHandler().OnAdd(aWorkspace(), false)
		f.expectWoken("a", "b", "c")
		f.workspaceHandler().OnDelete(cache.DeletedObject[*v1alpha1.Workspace]{OptionalObj: aWorkspace()})
		f.expectWoken("a", "b", "c")
	})
}

// In an outage of the owners' keys, what one Datastore remembers of an owner decides on the claims for all that are his.
func TestWhoIsListedWakesTheClaimsOfTheOwner(t *testing.T) {
	runWith(t, two, func(f *fixture) {
		another := aDatastore(func(ds *v1alpha1.Datastore) { ds.Name, ds.UID, ds.Status.ListedOwner = "another", "another", "owner" })
		f.must(f.formspec.Tracker().Add(another))
		f.expectWoken("a", "b")
		f.must(f.formspec.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("datastores"), "bank", "another"))
		f.expectWoken("a", "b")
	})
}

func TestWhatHappensToSecretsWakesClaims(t *testing.T) {
	of := func(owner metav1.Object, kind string, change ...func(*corev1.Secret)) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "any", ResourceVersion: "8", Labels: map[string]string{v1alpha1.LabelClaim: "a", v1alpha1.LabelDatastore: "pg"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.SchemeGroupVersion.WithKind(kind))},
		}}
		for _, f := range change {
			f(secret)
		}
		return secret
	}
	ours := func(s *corev1.Secret) { s.ResourceVersion = "100" }
	unlabelled := func(s *corev1.Secret) { s.Labels = nil }
	for name, row := range map[string]struct {
		datastore  *v1alpha1.Datastore
		secret     *corev1.Secret
		now, later []string
	}{
		"a claim's own":                       {aDatastore(), of(aClaim("a"), "ResourceClaim"), []string{"a"}, nil},
		"a claim's own, written by us":        {aDatastore(), of(aClaim("a"), "ResourceClaim", ours), nil, nil},
		"one that is no claim's":              {aDatastore(), of(aClaim("a"), "ResourceClaim", unlabelled), nil, nil},
		"the datastore's":                     {aDatastore(), of(aDatastore(), "Datastore"), []string{"a", "b"}, nil},
		"the datastore's, and roles shared":   {aDatastore(shared), of(aDatastore(), "Datastore"), []string{"b"}, nil},
		"one that is not of a datastore":      {aDatastore(), of(aDatastore(), "Datastore", unlabelled), nil, nil},
		"somebody's":                          {aDatastore(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "x"}}, nil, nil},
		"the workspace's":                     {aDatastore(), credentialsOf("shop"), nil, []string{"b"}},
		"one that says it is the workspace's": {aDatastore(), func() *corev1.Secret { s := credentialsOf("shop"); s.Name = "x"; return s }(), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects := func() []runtime.Object { return append([]runtime.Object{row.datastore}, two()[1:]...) }
			runWith(t, objects, func(f *fixture) {
				f.memory.Wrote(cache.NewObjectName("bank", "a"), behind("7"), "100")
				f.secretHandler().OnUpdate(row.secret, row.secret)
				f.expectWoken(row.now...)
				<-time.After(batch)
				f.expectWoken(row.later...)
			})
		})
	}
	runWith(t, two, func(f *fixture) {
		f.secretHandler().OnAdd(of(aClaim("a"), "ResourceClaim"), true) // every claim wakes at the start anyway
		f.expectWoken()
		f.secretHandler().OnAdd(of(aDatastore(), "Datastore"), false)
		f.expectWoken("a", "b")
		f.secretHandler().OnDelete(cache.DeletedObject[*corev1.Secret]{OptionalObj: of(aClaim("a"), "ResourceClaim")})
		f.expectWoken("a")
		f.secretHandler().OnDelete(cache.DeletedObject[*corev1.Secret]{})
		f.expectWoken()
		f.enqueueAll()
		f.expectWoken("a", "b", "c")
	})
}

func credentialsOf(workspace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: "formspec-resource-" + workspace + "-db-credentials",
		Annotations: map[string]string{v1alpha1.AnnotationWorkspaceName: workspace},
	}}
}
