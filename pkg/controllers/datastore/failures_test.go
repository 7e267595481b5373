// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
)

func TestTheNameIsTaken(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		_, err := f.kube.CoreV1().Secrets("bank").Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "formspec-datastore-pg", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
			Data:       map[string][]byte{"uri": []byte("somebody's")},
		}, metav1.CreateOptions{})
		f.must(err)
		f.secret("dsn", good)
		if _, after := f.syncOnce(); after != 30*time.Second {
			t.Errorf("it looks again after %s", after)
		}
		f.expect(isFalse, v1alpha1.ReasonNameConflict)
		if string(f.managed().Data["uri"]) != "somebody's" {
			t.Error("somebody's Secret was changed")
		}
	})
}

func TestADatastoreThatIsGone(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.secret("dsn", dead)
		f.syncOnce()
		f.must(f.formspec.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("datastores"), "bank", "pg"))
		if requests, _ := f.syncOnce(); len(requests) > 0 {
			t.Errorf("requests %q", requests)
		}
		<-time.After(time.Minute) // the probe was called off, and what it says wakes nobody
		if f.woken(); len(f.offers.byDS) > 0 {
			t.Error("something is remembered of it")
		}
		f.crashed(t.Context(), pg)
	})
}

func TestFailures(t *testing.T) {
	broken := errors.New("no answer")
	denied := apierrors.NewForbidden(corev1.Resource("secrets"), "formspec-datastore-pg", errors.New("a policy says no"))
	for name, row := range map[string]struct {
		verb, resource string
		fails          error
		want           error
		reason         string // of Validated. Empty: nothing is written
	}{
		"the Secret cannot be read":    {"get", "secrets", broken, broken, ""},
		"the Secret cannot be written": {"patch", "secrets", broken, broken, ""},
		"a policy refuses the Secret":  {"patch", "secrets", denied, denied, v1alpha1.ReasonRefused},
		"the status cannot be written": {"update", "datastores", broken, broken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, aDatastore(func(ds *v1alpha1.Datastore) { ds.Spec.Driver = v1alpha1.DriverMemory }), func(f *fixture) {
				f.secret("dsn", "anything")
				fail := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, row.fails }
				if row.resource == "secrets" {
					f.kube.PrependReactor(row.verb, row.resource, fail)
				} else {
					f.formspec.PrependReactor(row.verb, row.resource, fail)
				}
				after, err := f.sync(t.Context(), pg)
				if !errors.Is(err, row.want) {
					t.Errorf("error %v, want %v", err, row.want)
				}
				if row.reason == "" {
					if len(f.datastore().Status.Conditions) > 0 || len(f.events) > 0 {
						t.Errorf("it says %+v and %q about a fault that passes", f.datastore().Status, f.events)
					}
					return
				}
				if f.expect(isFalse, row.reason); after != 30*time.Second {
					t.Errorf("it is tried again after %s", after)
				}
			})
		})
	}
}

// store says how far a cache has come.
type store string

func (s store) LastStoreSyncResourceVersion() string { return string(s) }

func TestASyncWaitsUntilTheCacheHasSeenTheLastOne(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.memory.Wrote(pg, store("7"), "8")
		if _, err := f.sync(t.Context(), pg); !errors.Is(err, worker.ErrStale) || len(f.datastore().Status.Conditions) > 0 {
			t.Errorf("error %v, want a stale cache and nothing done", err)
		}
	})
}

func TestAPanicIsShown(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.crashed(t.Context(), pg)
		if c := meta.FindStatusCondition(f.datastore().Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != v1alpha1.ReasonInternalError {
			t.Errorf("Ready is %+v, want InternalError", c)
		}
		f.crashed(t.Context(), cache.NewObjectName("bank", "another")) // is no more
	})
}
