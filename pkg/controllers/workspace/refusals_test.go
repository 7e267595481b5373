// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

var deniedByPolicy = apierrors.NewForbidden(things, "x", errors.New("denied by policy"))

// injected is a Workspace at rest that has the credentials of the Datastore "pg".
func injected(t *testing.T, test func(f *fixture)) {
	t.Helper()
	pg := managed("formspec-datastore-pg", aDatastore(), "Datastore")
	run(t, []runtime.Object{aWorkspace(), aClass(), pg}, func(f *fixture) {
		f.add(aDatastore())
		f.add(aClaim())
		f.settle()
		if !f.hasVariables() || len(f.secret().Data) == 0 {
			t.Fatal("nothing is injected")
		}
		test(f)
	})
}

// ungrant deletes the claim.
func (f *fixture) ungrant() {
	f.t.Helper()
	claims := v1alpha1.SchemeGroupVersion.WithResource("resourceclaims")
	if err := f.server.formspec.Tracker().Delete(claims, "bank", "shop-pg"); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) secret() *corev1.Secret {
	return live(f.kube.Tracker(), secretsResource, "bank", credentialsName).(*corev1.Secret)
}

// hasVariables says whether the Deployment refers to the credentials Secret.
func (f *fixture) hasVariables() bool {
	d := live(f.kube.Tracker(), deploymentsResource, "bank", childName).(*appsv1.Deployment)
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return strings.Contains(e.Name, "_DATASTORE_PG_") })
}

// Whatever else is refused, credentials are taken back.
func TestARefusalKeepsNoCredentialsInForce(t *testing.T) {
	newClass := func(f *fixture) {
		change(f, classesResource, "standard", true, func(c *v1alpha1.ClusterClass) {
			c.Spec.SLA, c.Spec.ResourceImage = "99.9", "formahub/formspec-resource:1.5.0"
		})
	}
	for name, row := range map[string]struct {
		refused string
		change  func(*fixture) // to something that is refused
		keys    bool           // stay in the Secret
	}{
		"the Secret":     {"apply Secret", func(*fixture) {}, true},
		"the ConfigMap":  {"apply ConfigMap", newClass, false},
		"the Deployment": {"apply Deployment", newClass, false},
		"another child":  {"create Service", func(f *fixture) { _ = f.kube.Tracker().Delete(servicesResource, "bank", childName) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			injected(t, func(f *fixture) {
				f.fail(row.refused, deniedByPolicy)
				row.change(f)
				f.ungrant()
				if after, err := f.syncOnce(); !errors.Is(err, deniedByPolicy) || after != 30*time.Second {
					t.Errorf("look again after %s, error %v; want 30s and the refusal", after, err)
				}
				if got := len(f.secret().Data) > 0; got != row.keys {
					t.Errorf("the Secret has keys: %v, want %v", got, row.keys)
				}
				if refused := row.refused == "apply Deployment"; f.hasVariables() != refused {
					t.Errorf("the Deployment has variables: %v, want %v", !refused, refused)
				}
				f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonRefused)

				f.fail(row.refused, nil)
				f.settle()
				if f.hasVariables() || len(f.secret().Data) > 0 {
					t.Error("what was refused is not made up for")
				}
			})
		})
	}
}

// A Deployment that is refused as it should be loses its variables nevertheless.
func TestADeploymentThatIsRefusedLosesItsVariables(t *testing.T) {
	injected(t, func(f *fixture) {
		change(f, classesResource, "standard", true, func(c *v1alpha1.ClusterClass) { c.Spec.ResourceImage = "evil.example.com/app:1" })
		f.ungrant()
		f.refuse("apply Deployment", "evil.example.com", deniedByPolicy)
		if _, err := f.syncOnce(); !errors.Is(err, deniedByPolicy) {
			t.Errorf("error %v, want the refusal", err)
		}
		f.expectRequests("apply Secret", "apply Deployment", "apply Deployment", "status Workspace")
		if f.hasVariables() {
			t.Error("the Deployment has the variables still")
		}
	})
}

// A fault that passes ends the sync, also after a refusal.
func TestAFaultAfterARefusal(t *testing.T) {
	fault := apierrors.NewInternalError(errors.New("etcd"))
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.fail("create ConfigMap", deniedByPolicy)
		f.fail("create Service", fault)
		if after, err := f.syncOnce(); !errors.Is(err, fault) || after != 0 {
			t.Errorf("look again after %s, error %v; want %v", after, err, fault)
		}
		f.expectRequests("apply Workspace", "create Secret", "create ConfigMap", "create Service")
	})
}

// What runs here must go, whatever becomes of the mark on the Secret.
func TestARefusedMarkKeepsNothingRunning(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		change(f, workspacesResource, "shop", true, func(ws *v1alpha1.Workspace) { ws.Spec.Cluster = "sby-1" })
		f.fail("apply Secret", deniedByPolicy)
		_, _ = f.syncOnce()
		if live(f.kube.Tracker(), deploymentsResource, "bank", childName) != nil {
			t.Error("the Deployment is there still")
		}
	})
}

// A grant begins and ends when it says so, and not at the next try of something else.
func TestARefusalDelaysNoVerdict(t *testing.T) {
	pg := managed("formspec-datastore-pg", aDatastore(), "Datastore")
	run(t, []runtime.Object{aWorkspace(), aClass(), pg}, func(f *fixture) {
		f.add(aDatastore())
		f.add(aClaim(func(c *v1alpha1.ResourceClaim) {
			c.Spec.GrantedAt = time.Now().Add(resourceclaim.Leeway + 7*time.Second).UTC().Format(time.RFC3339)
		}))
		synctest.Wait()
		f.fail("create Service", deniedByPolicy)
		if after, _ := f.syncOnce(); after != 7*time.Second {
			t.Errorf("look again after %s, want when the grant begins", after)
		}
	})
}
