// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// expectWoken compares the keys that are due at once, and those that are due after a batch.
func (f *fixture) expectWoken(now, later []string) {
	f.t.Helper()
	synctest.Wait()
	if got := f.woken(); !slices.Equal(got, now) {
		f.t.Errorf("woken at once: %q, want %q", got, now)
	}
	<-time.After(batch)
	synctest.Wait()
	if got := f.woken(); !slices.Equal(got, later) {
		f.t.Errorf("woken later: %q, want %q", got, later)
	}
}

var justPG = []string{"bank/pg"}

func TestWhatHappensToADatastoreWakesIt(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*v1alpha1.Datastore)
		want   []string
	}{
		"its spec":                {func(ds *v1alpha1.Datastore) { ds.Generation++ }, justPG},
		"its finalizers":          {func(ds *v1alpha1.Datastore) { ds.Finalizers = []string{"a"} }, justPG},
		"its deletion":            {func(ds *v1alpha1.Datastore) { ds.DeletionTimestamp = new(metav1.Now()) }, justPG},
		"it is another":           {func(ds *v1alpha1.Datastore) { ds.UID = "another" }, justPG},
		"it can be read again":    {func(ds *v1alpha1.Datastore) { ds.Annotations = map[string]string{v1alpha1.AnnotationUndecodable: "x"} }, justPG},
		"its status":              {func(ds *v1alpha1.Datastore) { ds.Status.Claims++ }, nil},
		"a label":                 {func(ds *v1alpha1.Datastore) { ds.Labels = map[string]string{"a": "b"} }, nil},
		"what we wrote ourselves": {func(ds *v1alpha1.Datastore) { ds.ResourceVersion, ds.Finalizers = "100", []string{"a"} }, nil},
		"that, with a user's":     {func(ds *v1alpha1.Datastore) { ds.ResourceVersion, ds.Generation = "100", 2 }, justPG},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, aDatastore(), func(f *fixture) {
				f.memory.Wrote(pg, store("7"), "100")
				f.datastoreHandler().OnUpdate(aDatastore(), aDatastore(row.change))
				f.expectWoken(row.want, nil)
			})
		})
	}
	run(t, aDatastore(), func(f *fixture) {
		f.datastoreHandler().OnAdd(aDatastore(), true)
		f.expectWoken(justPG, nil)
		f.datastoreHandler().OnDelete(cache.DeletedObject[*v1alpha1.Datastore]{OptionalObj: aDatastore()})
		f.expectWoken(justPG, nil)
	})
}

func TestWhatHappensToAClaimWakesItsDatastore(t *testing.T) {
	logged := func(c *v1alpha1.ResourceClaim) { c.Finalizers = []string{v1alpha1.RoleFinalizer} }
	for name, row := range map[string]struct {
		old, cur   *v1alpha1.ResourceClaim
		now, later []string
	}{
		"it is approved":            {aClaim("a"), aClaim("a", approve), nil, justPG},
		"it is withdrawn":           {aClaim("a", approve), aClaim("a"), nil, justPG},
		"its size":                  {aClaim("a", approve), aClaim("a", approve, func(c *v1alpha1.ResourceClaim) { c.Generation++ }), nil, justPG},
		"its login":                 {aClaim("a"), aClaim("a", logged), justPG, nil},
		"the end of its login":      {aClaim("a", logged), aClaim("a"), justPG, nil},
		"something else":            {aClaim("a"), aClaim("a", func(c *v1alpha1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }), nil, nil},
		"it is for another one now": {aClaim("a"), aClaim("a", func(c *v1alpha1.ResourceClaim) { c.Generation, c.Spec.Datastore = 2, "q" }), nil, []string{"bank/pg", "bank/q"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, aDatastore(), func(f *fixture) {
				f.claimHandler().OnUpdate(row.old, row.cur)
				f.expectWoken(row.now, row.later)
			})
		})
	}
	run(t, aDatastore(), func(f *fixture) {
		f.claimHandler().OnAdd(aClaim("a", approve), true) // every Datastore wakes at the start anyway
		f.claimHandler().OnAdd(aClaim("a"), false)         // counts for nothing yet
		f.expectWoken(nil, nil)
		for _, name := range []string{"a", "b", "c"} {
			f.claimHandler().OnAdd(aClaim(name, approve), false)
		}
		f.expectWoken(nil, justPG)
		f.claimHandler().OnDelete(cache.DeletedObject[*v1alpha1.ResourceClaim]{OptionalObj: aClaim("a")})
		f.expectWoken(nil, justPG)
		f.claimHandler().OnDelete(cache.DeletedObject[*v1alpha1.ResourceClaim]{})
		f.expectWoken(nil, nil)
	})
}

func TestWhatHappensToSecretsWakesTheDatastore(t *testing.T) {
	managed := func(change func(*corev1.Secret)) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "formspec-datastore-pg", ResourceVersion: "8", Labels: map[string]string{v1alpha1.LabelDatastore: "pg"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(aDatastore(), v1alpha1.SchemeGroupVersion.WithKind("Datastore"))},
		}}
		change(secret)
		return secret
	}
	for name, row := range map[string]struct {
		secret *corev1.Secret
		want   []string
	}{
		"somebody changed it":     {managed(func(*corev1.Secret) {}), justPG},
		"what we wrote ourselves": {managed(func(s *corev1.Secret) { s.ResourceVersion = "100" }), nil},
		"of a claim":              {managed(func(s *corev1.Secret) { s.Labels = nil }), nil},
		"of nobody":               {managed(func(s *corev1.Secret) { s.OwnerReferences = nil }), nil},
		"of a Workspace":          {managed(func(s *corev1.Secret) { s.OwnerReferences[0].Kind = "Workspace" }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, aDatastore(), func(f *fixture) {
				f.memory.Wrote(pg, store("7"), "100")
				f.managedHandler().OnAdd(row.secret, false)
				f.expectWoken(nil, nil)
				f.managedHandler().OnUpdate(row.secret, row.secret)
				f.expectWoken(row.want, nil)
			})
		})
	}
	run(t, aDatastore(), func(f *fixture) {
		secret := managed(func(*corev1.Secret) {})
		f.managedHandler().OnDelete(cache.DeletedObject[*corev1.Secret]{OptionalObj: secret})
		f.expectWoken(justPG, nil)
		f.managedHandler().OnDelete(cache.DeletedObject[*corev1.Secret]{})
		f.expectWoken(nil, nil)

		endpoint := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "creds"}}
		stranger := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "creds"}}
		f.sourceHandler().OnAdd(endpoint, true) // every Datastore wakes at the start anyway
		f.sourceHandler().OnUpdate(stranger, stranger)
		f.expectWoken(nil, nil)
		f.sourceHandler().OnAdd(endpoint, false)
		f.expectWoken(justPG, nil)
		f.sourceHandler().OnDelete(cache.DeletedObject[*metav1.PartialObjectMetadata]{OptionalObj: endpoint})
		f.expectWoken(justPG, nil)
		f.sourceHandler().OnDelete(cache.DeletedObject[*metav1.PartialObjectMetadata]{})
		f.expectWoken(nil, nil)
	})
}

// The Datastore remembers for whom the ConfigMap had an entry, and learns nothing new while it is absent.
func TestTheOwnersKeysWakeEveryDatastore(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		configMaps := f.kube.CoreV1().ConfigMaps("formspec-system")
		publish := func(owners ...string) {
			t.Helper()
			keys := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OwnerKeysConfigMap}, Data: map[string]string{}}
			for _, owner := range owners {
				keys.Data[owner] = "# none"
			}
			_, err := configMaps.Create(t.Context(), keys, metav1.CreateOptions{})
			f.must(err)
			f.expectWoken(justPG, nil)
		}
		withdraw := func() {
			t.Helper()
			f.must(configMaps.Delete(t.Context(), v1alpha1.OwnerKeysConfigMap, metav1.DeleteOptions{}))
			f.expectWoken(justPG, nil)
		}
		rename := func(owner string) {
			t.Helper()
			f.change(func(ds *v1alpha1.Datastore) { ds.Spec.Owner, ds.Generation = owner, ds.Generation+1 })
			f.expectWoken(justPG, nil)
		}
		listed := func(want string) {
			t.Helper()
			f.syncOnce()
			if got := f.datastore().Status.ListedOwner; got != want {
				t.Errorf("the listed owner is %q, want %q", got, want)
			}
			if requests, _ := f.syncOnce(); len(requests) > 0 {
				t.Errorf("what is known was written again: %q", requests)
			}
		}
		f.settle()
		listed("")
		publish("owner")
		listed("owner")
		withdraw()
		listed("owner")
		rename("stranger")
		listed("owner")
		rename("owner")
		listed("owner")
		rename("stranger")
		publish("owner", "stranger")
		listed("stranger")
		withdraw()
		listed("stranger")
		publish("owner")
		listed("")
		rename("owner")
		listed("owner")
	})
}
