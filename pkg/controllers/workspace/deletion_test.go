// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
)

const credentialsName = childName + "-db-credentials"

// remove is a user's deletion of the workspace, which waits for its finalizers.
func (f *fixture) remove() {
	f.t.Helper()
	change(f, workspacesResource, "shop", true, func(ws *v1alpha1.Workspace) { ws.DeletionTimestamp = new(metav1.Now()) })
}

// expectRetained: the credentials are still there, and are marked or not.
func (f *fixture) expectRetained(marked bool) {
	f.t.Helper()
	secret, _ := live(f.kube.Tracker(), secretsResource, "bank", credentialsName).(*corev1.Secret)
	if secret == nil {
		f.t.Fatal("the credentials are gone")
	}
	if got := secret.Labels[v1alpha1.LabelRetained] == "true"; got != marked || len(secret.OwnerReferences) > 0 {
		f.t.Errorf("labels %v, owners %v; want the mark: %v, and no owner", secret.Labels, secret.OwnerReferences, marked)
	}
}

func TestADeletedWorkspaceLeavesItsCredentialsBehind(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		f.remove()
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("apply Secret", "patch Workspace")
		f.expectRetained(true)
		f.expectEvents()
		if live(f.server.formspec.Tracker(), workspacesResource, "bank", "shop") != nil {
			f.t.Error("the workspace is still there")
		}
		f.settle() // its key once more, for the deletion
		f.expectRetained(true)
	})
}

func TestADeletedWorkspaceThatOthersHold(t *testing.T) {
	held := aWorkspace(func(ws *v1alpha1.Workspace) { ws.Finalizers = []string{"example.com/theirs"} })
	run(t, []runtime.Object{held, aClass()}, func(f *fixture) {
		f.settle()
		f.remove()
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("apply Secret", "patch Workspace", "status Workspace")
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonTerminating)
		f.settle()

		change(f, workspacesResource, "shop", false, func(ws *v1alpha1.Workspace) {
			if len(ws.Finalizers) != 1 || ws.Finalizers[0] != "example.com/theirs" {
				f.t.Errorf("finalizers %q, want theirs alone", ws.Finalizers)
			}
		})
	})
}

func TestAFinalizerOfAnOperatorThatWroteByUpdates(t *testing.T) {
	taken := aWorkspace(func(ws *v1alpha1.Workspace) { ws.Finalizers = []string{v1alpha1.WorkspaceFinalizer} })
	run(t, []runtime.Object{taken, aClass()}, func(f *fixture) {
		f.settle()
		f.remove()
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("apply Secret", "patch Workspace")
		if live(f.server.formspec.Tracker(), workspacesResource, "bank", "shop") != nil {
			f.t.Error("the workspace is still there")
		}
	})
}

func TestADeletedWorkspaceWhoseClassIsGone(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		if err := f.server.formspec.Tracker().Delete(classesResource, "", "standard"); err != nil {
			f.t.Fatal(err)
		}
		f.remove()
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("apply Secret", "patch Workspace")
	})
}

func TestADeletedWorkspaceThatNeverRan(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(func(ws *v1alpha1.Workspace) {
		ws.DeletionTimestamp, ws.Finalizers = new(metav1.Now()), []string{"example.com/theirs"}
	}), aClass()}, func(f *fixture) {
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("status Workspace") // and nothing is made for it
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonTerminating)
	})
}

// The finalizer goes last: were it to go first, nobody would freeze the credentials after a failure.
func TestTheFinalizerStaysUntilTheCredentialsAreFrozen(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		f.remove()
		fault := apierrors.NewInternalError(errors.New("etcd"))
		f.fail("apply Secret", fault)
		if _, err := f.syncOnce(); !errors.Is(err, fault) {
			f.t.Errorf("error %v, want %v", err, fault)
		}
		f.expectRequests("apply Secret")
		f.fail("apply Secret", nil)
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("apply Secret", "patch Workspace")
	})
}

func TestAFinalizerThatCannotBeRemoved(t *testing.T) {
	for name, row := range map[string]struct {
		err   error
		shown bool // in the status
		want  bool // the error is returned
	}{
		"the workspace is gone":              {apierrors.NewNotFound(things, "shop"), false, false},
		"somebody changed it meanwhile":      {apierrors.NewConflict(things, "shop", errors.New("version")), false, true},
		"the server fails":                   {apierrors.NewInternalError(errors.New("etcd")), false, true},
		"a policy refuses: the user is told": {apierrors.NewForbidden(things, "shop", errors.New("denied by policy")), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
				f.settle()
				f.remove()
				f.fail("patch Workspace", row.err)
				if _, err := f.syncOnce(); (err != nil) != row.want || (row.want && !errors.Is(err, row.err)) {
					f.t.Errorf("error %v, want %v: %v", err, row.err, row.want)
				}
				if !row.shown {
					f.expectRequests("apply Secret", "patch Workspace")
					return
				}
				f.expectRequests("apply Secret", "patch Workspace", "status Workspace")
				f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonTerminating)
				ws, err := f.workspaces.Workspaces("bank").Get("shop")
				if err != nil {
					f.t.Fatal(err)
				}
				stalled := meta.FindStatusCondition(ws.Status.Conditions, v1alpha1.ConditionStalled)
				if stalled == nil || !strings.Contains(stalled.Message, "denied by policy") {
					f.t.Errorf("Stalled is %+v, want it to say what holds the deletion up", stalled)
				}
			})
		})
	}
}

func TestAWorkspaceThatVanishedLeavesItsCredentialsBehind(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		f.expectRetained(false)
		if err := f.server.formspec.Tracker().Delete(workspacesResource, "bank", "shop"); err != nil { // its finalizer was stripped
			f.t.Fatal(err)
		}
		synctest.Wait()
		if got := f.woken(); len(got) != 1 {
			f.t.Errorf("woken: %q, want the workspace that vanished", got)
		}
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("apply Secret")
		f.expectRetained(true)
		f.settle()
	})
}

func TestAWorkspaceThatVanishedIsForgotten(t *testing.T) {
	run(t, []runtime.Object{aClass()}, func(f *fixture) {
		behind := &version{"1"}
		f.memory.Wrote(shop, behind, "2")
		f.memory.Rewrote(shop, corev1ac.Service(childName, "bank"), corev1ac.Service(childName, "bank"), time.Now())
		behind.seen = "2"
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		if f.memory.Rewritten(shop, "Service", childName) != nil {
			f.t.Error("what a policy did to its child is remembered for ever")
		}
	})
}

func TestAWorkspaceThatNeverWas(t *testing.T) {
	run(t, []runtime.Object{aClass()}, func(f *fixture) {
		if after, err := f.syncOnce(); err != nil || after != 0 {
			f.t.Errorf("look again after %s, error %v; want neither", after, err)
		}
		f.expectRequests()
	})
}

func TestAWorkspaceThatComesBackAdoptsItsCredentials(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		f.remove()
		f.settle()
		for _, gone := range []struct {
			kind string
			do   func() error
		}{ // what the garbage collector does
			{"Deployment", func() error { return f.kube.Tracker().Delete(deploymentsResource, "bank", childName) }},
			{"Service", func() error { return f.kube.Tracker().Delete(servicesResource, "bank", childName) }},
			{"ConfigMap", func() error { return f.kube.Tracker().Delete(configMapsResource, "bank", childName+"-config") }},
			{"PodDisruptionBudget", func() error { return f.kube.Tracker().Delete(budgetsResource, "bank", childName) }},
			{"HorizontalPodAutoscaler", func() error { return f.kube.Tracker().Delete(autoscalersResource, "bank", childName) }},
		} {
			if err := gone.do(); err != nil {
				f.t.Fatal(gone.kind, err)
			}
		}
		f.add(aWorkspace(func(ws *v1alpha1.Workspace) { ws.UID = "uid-of-the-next-shop" }))
		synctest.Wait()
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("apply Workspace", "apply Secret", "create ConfigMap", "create Service", "create Deployment",
			"create PodDisruptionBudget", "create HorizontalPodAutoscaler", "status Workspace")
		f.expectRetained(false)
	})
}

// The garbage collector gives the children of an orphaning deletion up, and their watch is ahead of the workspace's.
func TestAnOrphanIsNotTakenBackByAWorkspaceThatIsBeingDeleted(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		change(f, servicesResource, childName, false, func(service *corev1.Service) { service.OwnerReferences = nil })
		synctest.Wait()
		f.cutOff() // the caches never see the deletion
		f.remove()
		if _, err := f.syncOnce(); !errors.Is(err, worker.ErrStale) {
			f.t.Errorf("sync returned %v, want %v", err, worker.ErrStale)
		}
		f.expectRequests("get Workspace")
	})
}

func TestAnOrphanOfALivingWorkspaceIsTakenBack(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		change(f, servicesResource, childName, false, func(service *corev1.Service) { service.OwnerReferences = nil })
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		f.expectRequests("get Workspace", "apply Service")
		f.settle()
		service, _ := live(f.kube.Tracker(), servicesResource, "bank", childName).(*corev1.Service)
		if service == nil || metav1.GetControllerOfNoCopy(service) == nil {
			f.t.Error("the service has no owner")
		}
	})
}
