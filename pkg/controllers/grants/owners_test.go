// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grants_test

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
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// ownedBy changes the owner of a Datastore, and says of whom it remembers published keys.
func ownedBy(owner, listed string) func(*v1alpha1.Datastore) {
	return func(ds *v1alpha1.Datastore) { ds.Spec.Owner, ds.Status.ListedOwner = owner, listed }
}

func elsewhere(ds *v1alpha1.Datastore) { ds.Namespace = "elsewhere" }

func TestWhichKeysCount(t *testing.T) {
	unstated := func(ds *v1alpha1.Datastore) { ds.Spec.OwnerPublicKey = "" }
	for name, row := range map[string]struct {
		config *corev1.ConfigMap
		change func(*v1alpha1.Datastore)
		other  *v1alpha1.Datastore
		want   resourceclaim.KeysState
	}{
		"published":            {published(), ownedBy("owner", "owner"), nil, resourceclaim.KeysPublished},
		"published for others": {published(), ownedBy("stranger", ""), nil, resourceclaim.KeysNoEntry},
		"published once, and the entry is gone: whoever remembers it is late":   {published(), ownedBy("stranger", "stranger"), nil, resourceclaim.KeysNoEntry},
		"never published, and the Datastore states one":                         {nil, ownedBy("owner", ""), nil, resourceclaim.KeysNoEntry},
		"never published, and the Datastore states none":                        {nil, unstated, nil, resourceclaim.KeysUnavailable},
		"never published, and of no owner":                                      {nil, ownedBy("", ""), datastore("another", ownedBy("", "")), resourceclaim.KeysNoEntry},
		"published once, and gone: no weaker key steps in":                      {nil, ownedBy("owner", "owner"), nil, resourceclaim.KeysUnavailable},
		"another Datastore remembers them":                                      {nil, ownedBy("owner", ""), datastore("another", ownedBy("owner", "owner")), resourceclaim.KeysUnavailable},
		"one in another scope does":                                             {nil, ownedBy("owner", ""), datastore("another", ownedBy("owner", "owner"), elsewhere), resourceclaim.KeysUnavailable},
		"one that is another's now does":                                        {nil, ownedBy("owner", ""), datastore("another", ownedBy("stranger", "owner")), resourceclaim.KeysUnavailable},
		"the one that remembers the owner before him says nothing of him":       {nil, ownedBy("stranger", "owner"), nil, resourceclaim.KeysNoEntry},
		"nor of him elsewhere, and his own Datastores count as they did before": {nil, ownedBy("stranger", ""), datastore("another", ownedBy("stranger", "owner")), resourceclaim.KeysNoEntry},
		"another Datastore remembers those of somebody else":                    {nil, ownedBy("owner", ""), datastore("another", ownedBy("other", "other")), resourceclaim.KeysNoEntry},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{datastore("pg", row.change)}
			if row.other != nil {
				objects = append(objects, row.other)
			}
			judged(t, row.config, objects, func(f *fixture) {
				in, err := f.Input(claim("c", "pg", time.Hour, ownerKey), start)
				if err != nil || in.OwnerKeys.State != row.want {
					t.Errorf("the keys are in state %d (%v), want %d", in.OwnerKeys.State, err, row.want)
				}
			})
		})
	}
}

// Where no Datastore's key counts, the absence of the others is an outage for everybody, and withdraws nothing.
func TestAnOutageWhereDatastoresAreNotTrusted(t *testing.T) {
	strict := trusting
	strict.TrustDatastoreKeys = false
	judgedBy(t, strict, nil, []runtime.Object{datastore("pg")}, func(f *fixture) {
		in, err := f.Input(claim("c", "pg", time.Hour, ownerKey), start)
		if err != nil || in.OwnerKeys.State != resourceclaim.KeysUnavailable {
			t.Errorf("the keys are in state %d (%v)", in.OwnerKeys.State, err)
		}
	})
}

// In the outage, anybody's key in a new Datastore of the owner convinces nobody, neither of a claim nor of what a Workspace gets.
func TestAForgedKeyInAnOutage(t *testing.T) {
	objects := []runtime.Object{
		datastore("pg", ownedBy("owner", "owner")), datastore("forged"), datastore("another", ownedBy("stranger", "")),
		claim("late", "pg", time.Hour, ownerKey), claim("pretended", "forged", time.Hour, statedKey),
		claim("own", "another", time.Hour, statedKey, func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedBy = "stranger" }),
	}
	judged(t, nil, objects, func(f *fixture) {
		verdicts, err := f.OfWorkspace(cache.NewObjectName("bank", "shop"), start)
		f.must(err)
		for _, j := range verdicts {
			want := v1alpha1.ReasonOwnerKeysUnavailable
			if j.Claim.Name == "own" {
				want = v1alpha1.ReasonClaimVerified
			}
			if j.Verdict.Approved != (j.Claim.Name == "own") || j.Verdict.Reason != want {
				t.Errorf("the verdict on %q is %v %s", j.Claim.Name, j.Verdict.Approved, j.Verdict.Reason)
			}
		}
		if len(verdicts) != 3 {
			t.Errorf("there are %d verdicts", len(verdicts))
		}
	})
}

func TestWhoIsListedWakesTheDatastoresOfTheOwner(t *testing.T) {
	all := []string{"forged", "pg"}
	first, second := datastore("first", ownedBy("owner", "owner"), elsewhere), datastore("second", ownedBy("stranger", "owner"))
	plain := datastore("first", ownedBy("owner", ""), elsewhere)
	relabelled := datastore("first", ownedBy("owner", "owner"), elsewhere, func(ds *v1alpha1.Datastore) { ds.Labels = map[string]string{"a": "b"} })
	for name, row := range map[string]struct {
		config *corev1.ConfigMap
		before []runtime.Object
		do     func(*fixture)
		want   []string
	}{
		"at the start":                       {nil, []runtime.Object{first}, func(*fixture) {}, nil},
		"one comes who remembers":            {nil, nil, func(f *fixture) { f.create(first) }, all},
		"one comes who does not":             {nil, nil, func(f *fixture) { f.create(plain) }, nil},
		"one comes to remember":              {nil, []runtime.Object{plain}, func(f *fixture) { f.update(first) }, all},
		"one forgets":                        {nil, []runtime.Object{first}, func(f *fixture) { f.update(plain) }, all},
		"one changes otherwise":              {nil, []runtime.Object{first}, func(f *fixture) { f.update(relabelled) }, nil},
		"the only one goes":                  {nil, []runtime.Object{first}, func(f *fixture) { f.remove(first) }, all},
		"one of two goes":                    {nil, []runtime.Object{first, second}, func(f *fixture) { f.remove(first) }, nil},
		"both go":                            {nil, []runtime.Object{first, second}, func(f *fixture) { f.remove(first); f.remove(second) }, all},
		"the ConfigMap is there: all know":   {published(), nil, func(f *fixture) { f.create(first) }, nil},
		"so it is, and the only one goes":    {published(), []runtime.Object{first}, func(f *fixture) { f.remove(first) }, nil},
		"one comes who remembers a stranger": {nil, nil, func(f *fixture) { f.create(datastore("s", ownedBy("owner", "stranger"))) }, []string{"others"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]runtime.Object{datastore("pg"), datastore("forged"), datastore("others", ownedBy("stranger", ""))}, row.before...)
			for i, object := range objects {
				objects[i] = object.DeepCopyObject()
			}
			judged(t, row.config, objects, func(f *fixture) {
				row.do(f)
				synctest.Wait()
				f.mu.Lock()
				defer f.mu.Unlock()
				slices.Sort(f.woken)
				if got := slices.Compact(f.woken); !slices.Equal(got, row.want) {
					t.Errorf("woken %q, want %q", got, row.want)
				}
			})
		})
	}
}

func (f *fixture) create(ds *v1alpha1.Datastore) {
	f.t.Helper()
	_, err := f.scopeOf(ds).FormspecV1alpha1().Datastores(ds.Namespace).Create(f.t.Context(), ds.DeepCopy(), metav1.CreateOptions{})
	f.must(err)
}

func (f *fixture) update(ds *v1alpha1.Datastore) {
	f.t.Helper()
	f.must(f.scopeOf(ds).Tracker().Update(v1alpha1.SchemeGroupVersion.WithResource("datastores"), ds.DeepCopy(), ds.Namespace))
}

func (f *fixture) remove(ds *v1alpha1.Datastore) {
	f.t.Helper()
	f.must(f.scopeOf(ds).FormspecV1alpha1().Datastores(ds.Namespace).Delete(f.t.Context(), ds.Name, metav1.DeleteOptions{}))
}
