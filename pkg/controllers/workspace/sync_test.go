// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
)

// everything is what a new workspace of the class "standard" takes, in order.
var everything = []string{
	"apply Workspace", "create Secret", "create ConfigMap", "create Service", "create Deployment",
	"create PodDisruptionBudget", "create HorizontalPodAutoscaler", "status Workspace",
}

func TestANewWorkspaceGetsItsChildrenInOrder(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		after, err := f.syncOnce()
		if err != nil || after != 0 {
			f.t.Errorf("look again after %s, error %v; want neither", after, err)
		}
		f.expectRequests(everything...)
		f.expectReady(metav1.ConditionUnknown, v1alpha1.ReasonRolloutInProgress)
		f.expectEvents()
	})
}

func TestASyncWritesWhatDiffersAndNothingElse(t *testing.T) {
	for name, row := range map[string]struct {
		change   func(f *fixture) // of a workspace that is ready
		requests []string
		status   metav1.ConditionStatus
		reason   string
		events   []string
	}{
		"nothing has changed": {
			func(*fixture) {}, nil, metav1.ConditionTrue, v1alpha1.ReasonAvailable, nil,
		},
		"a replica is lost": {
			func(f *fixture) { f.rolledOut(1) },
			[]string{"status Workspace"},
			metav1.ConditionFalse, v1alpha1.ReasonMinimumUnavailable,
			[]string{"Warning MinimumReplicasUnavailable"},
		},
		"somebody pointed the Service elsewhere": {
			func(f *fixture) {
				change(f, servicesResource, childName, false, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "evil"} })
			},
			[]string{"apply Service"},
			metav1.ConditionTrue, v1alpha1.ReasonAvailable, nil,
		},
		"somebody deleted the ConfigMap": {
			func(f *fixture) {
				if err := f.kube.Tracker().Delete(configMapsResource, "bank", childName+"-config"); err != nil {
					f.t.Fatal(err)
				}
			},
			[]string{"create ConfigMap"},
			metav1.ConditionTrue, v1alpha1.ReasonAvailable, nil,
		},
		"somebody took our finalizer off": {
			func(f *fixture) {
				change(f, workspacesResource, "shop", false, func(ws *v1alpha1.Workspace) { ws.Finalizers = nil })
			},
			[]string{"apply Workspace"},
			metav1.ConditionTrue, v1alpha1.ReasonAvailable, nil,
		},
		"other resources are wanted": {
			func(f *fixture) {
				change(f, workspacesResource, "shop", true, func(ws *v1alpha1.Workspace) { ws.Spec.Resources.CPU = "2" })
			},
			[]string{"apply Deployment", "status Workspace"},
			metav1.ConditionUnknown, v1alpha1.ReasonRolloutInProgress, nil,
		},
		"the class changes": {
			func(f *fixture) {
				change(f, classesResource, "standard", true, func(c *v1alpha1.ClusterClass) { c.Spec.Features, c.Spec.Scaling.MinReplicas = nil, 1 })
			},
			[]string{"apply ConfigMap", "delete PodDisruptionBudget", "delete HorizontalPodAutoscaler", "status Workspace"},
			metav1.ConditionTrue, v1alpha1.ReasonAvailable, nil,
		},
		"the class is gone": {
			func(f *fixture) {
				if err := f.server.formspec.Tracker().Delete(classesResource, "", "standard"); err != nil {
					f.t.Fatal(err)
				}
			},
			[]string{"status Workspace"},
			metav1.ConditionFalse, v1alpha1.ReasonClusterClassNotFound,
			[]string{"Warning ClusterClassNotFound"},
		},
		"it moves to another cluster": {
			func(f *fixture) {
				change(f, workspacesResource, "shop", true, func(ws *v1alpha1.Workspace) { ws.Spec.Cluster = "sby-1" })
			},
			[]string{
				"apply Secret", "delete HorizontalPodAutoscaler", "delete PodDisruptionBudget", "delete Deployment", "delete Service",
				"delete ConfigMap", "status Workspace",
			},
			metav1.ConditionFalse, v1alpha1.ReasonOtherCluster,
			[]string{"Warning OtherCluster"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
				f.settle()
				f.rolledOut(2)
				f.settle()
				row.change(f)
				if _, err := f.syncOnce(); err != nil {
					f.t.Fatal(err)
				}
				f.expectRequests(row.requests...)
				f.expectReady(row.status, row.reason)
				f.expectEvents(row.events...)
				f.settle() // and is at rest again
			})
		})
	}
}

func TestTheSteadyStateIsSilent(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		f.rolledOut(2)
		f.settle()
		for range 12 {
			<-time.After(10 * time.Minute)
			if after, err := f.syncOnce(); err != nil || after != 0 {
				f.t.Errorf("look again after %s, error %v; want neither", after, err)
			}
		}
		f.expectRequests()
		f.expectEvents()
	})
}

func TestWhatIsMissingComesInAnyOrder(t *testing.T) {
	run(t, []runtime.Object{aWorkspace()}, func(f *fixture) {
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("status Workspace")
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonClusterClassNotFound)
		f.expectEvents("Warning ClusterClassNotFound")
		f.settle()

		f.add(aClass())
		synctest.Wait()
		if got := f.woken(); !slices.Equal(got, []string{"bank/shop"}) {
			f.t.Errorf("woken: %q, want the workspace of the class", got)
		}
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests(everything...)
	})
}

// A cache that has seen nothing of a sync must not make the next one write again, nor decide on what was true before.
func TestASyncWaitsUntilTheCachesHaveSeenTheLastOne(t *testing.T) {
	for _, kind := range []string{"Workspace", "Secret", "ConfigMap", "Service", "Deployment", "PodDisruptionBudget", "HorizontalPodAutoscaler"} {
		t.Run(kind, func(t *testing.T) {
			run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
				f.cutOff()
				behind := &version{"1"}
				for other := range f.stores {
					f.stores[other] = &version{"999999"}
				}
				f.stores[kind] = behind
				if _, err := f.sync(f.t.Context(), shop); err != nil {
					f.t.Fatal(err)
				}
				f.expectRequests(everything...)
				if _, err := f.sync(f.t.Context(), shop); !errors.Is(err, worker.ErrStale) {
					f.t.Errorf("error %v, want %v", err, worker.ErrStale)
				}
				f.expectRequests()
				behind.seen = f.next()
				if _, err := f.sync(f.t.Context(), shop); errors.Is(err, worker.ErrStale) {
					f.t.Error("still stale though the cache has seen everything")
				}
			})
		})
	}
}

func TestAWorkspaceWaitsForASlot(t *testing.T) {
	older := aWorkspace(func(ws *v1alpha1.Workspace) {
		ws.Name, ws.UID, ws.CreationTimestamp = "older", "uid-of-older", metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	})
	younger := aWorkspace(func(ws *v1alpha1.Workspace) {
		ws.CreationTimestamp = metav1.NewTime(older.CreationTimestamp.Add(time.Hour))
	})
	class := aClass(func(c *v1alpha1.ClusterClass) { c.Spec.MaxWorkspaces = 1 })
	run(t, []runtime.Object{younger, older, class}, func(f *fixture) {
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("status Workspace")
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonClassFull)
		if _, err := f.sync(f.t.Context(), cache.NewObjectName("bank", "older")); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests(everything...)
		f.settle()

		f.ledger.Release("uid-of-older")
		if got := f.woken(); !slices.Equal(got, []string{"bank/shop"}) {
			f.t.Errorf("woken: %q, want the one who waited", got)
		}
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests(everything...)
	})
}

// version is an informer's store that has come so far.
type version struct{ seen string }

func (v *version) LastStoreSyncResourceVersion() string { return v.seen }
