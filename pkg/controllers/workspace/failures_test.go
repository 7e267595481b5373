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
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

var things = schema.GroupResource{Resource: "things"}

// children are the writes of everything but the status, in order.
var children = everything[:len(everything)-1]

// until is everything up to and including that request.
func until(request string) []string {
	return slices.Clone(everything[:slices.Index(everything, request)+1])
}

// without is everything but what depends on the request that is refused.
func without(request string) []string {
	switch request {
	case "create Secret", "create ConfigMap":
		return append(until("create Service"), "status Workspace") // pods could not start
	case "apply Workspace", "create Deployment":
		return append(until(request), "status Workspace")
	default:
		return everything
	}
}

func TestARefusedWriteShowsInTheStatus(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		reason string
	}{
		"a quota":               {apierrors.NewForbidden(things, "x", errors.New("exceeded quota: small")), v1alpha1.ReasonQuotaExceeded},
		"a policy":              {apierrors.NewForbidden(things, "x", errors.New("denied by policy")), v1alpha1.ReasonRefused},
		"the schema":            {apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "x", nil), v1alpha1.ReasonRefused},
		"a webhook's complaint": {apierrors.NewBadRequest("admission webhook denied the request"), v1alpha1.ReasonRefused},
		"a webhook's silence":   {apierrors.NewInternalError(errors.New(`failed calling webhook "deny.example.com": refused`)), v1alpha1.ReasonRefused},
	} {
		for _, request := range children {
			t.Run(name+" at "+request, func(t *testing.T) {
				run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
					f.fail(request, row.err)
					after, err := f.syncOnce()
					if !errors.Is(err, row.err) || after != 30*time.Second {
						f.t.Errorf("look again after %s, error %v; want 30s and %v", after, err, row.err)
					}
					f.expectRequests(without(request)...)
					f.expectReady(metav1.ConditionFalse, row.reason)
					f.expectEvents("Warning " + row.reason)

					_, _ = f.syncOnce()
					if got := f.sent(); len(got) != 1 || got[0] != request {
						f.t.Errorf("the next try sends %q, want %q: the same refusal is no news", got, request)
					}
					f.expectEvents()

					f.fail(request, nil)
					f.settle()
					f.expectReady(metav1.ConditionUnknown, v1alpha1.ReasonRolloutInProgress)
				})
			})
		}
	}
}

func TestAFaultThatPassesSaysNothingAboutTheWorkspace(t *testing.T) {
	terminating := apierrors.NewForbidden(things, "x", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, fault := range map[string]error{
		"the server fails":          apierrors.NewInternalError(errors.New("etcd")),
		"no answer":                 apierrors.NewTimeoutError("slow", 1),
		"too many requests":         apierrors.NewTooManyRequests("later", 1),
		"a namespace that is going": terminating,
	} {
		for _, request := range children {
			t.Run(name+" at "+request, func(t *testing.T) {
				run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
					f.fail(request, fault)
					if _, err := f.syncOnce(); !errors.Is(err, fault) {
						f.t.Errorf("error %v, want %v", err, fault)
					}
					f.expectRequests(until(request)...)
					f.expectEvents()
				})
			})
		}
	}
}

func TestAStatusThatCannotBeWritten(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want bool // the error is returned
	}{
		"a conflict":               {apierrors.NewConflict(things, "shop", errors.New("changed")), true},
		"the server fails":         {apierrors.NewInternalError(errors.New("etcd")), true},
		"the workspace is no more": {apierrors.NewNotFound(things, "shop"), false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
				f.settle()
				f.rolledOut(2)
				f.fail("status Workspace", row.err)
				if _, err := f.syncOnce(); (err != nil) != row.want || (row.want && !errors.Is(err, row.err)) {
					f.t.Errorf("error %v, want %v: %v", err, row.err, row.want)
				}
				f.expectRequests("status Workspace")
				f.expectEvents() // told only after it was written
			})
		})
	}
}

func TestADeletionThatFails(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		change(f, workspacesResource, "shop", true, func(ws *v1alpha1.Workspace) { ws.Spec.Cluster = "sby-1" })
		fault := apierrors.NewInternalError(errors.New("etcd"))
		f.fail("delete Deployment", fault)
		if _, err := f.syncOnce(); !errors.Is(err, fault) {
			f.t.Errorf("error %v, want %v", err, fault)
		}
		f.expectRequests("apply Secret", "delete HorizontalPodAutoscaler", "delete PodDisruptionBudget", "delete Deployment")
	})
}

// objectMeta is that of a child by its name; nobody owns it and it has no labels.
func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "bank", Name: name}
}

// strangers have the names of children.
var strangers = map[string]func() runtime.Object{
	"Secret":              func() runtime.Object { return &corev1.Secret{ObjectMeta: objectMeta(childName + "-db-credentials")} },
	"ConfigMap":           func() runtime.Object { return &corev1.ConfigMap{ObjectMeta: objectMeta(childName + "-config")} },
	"Service":             func() runtime.Object { return &corev1.Service{ObjectMeta: objectMeta(childName)} },
	"Deployment":          func() runtime.Object { return &appsv1.Deployment{ObjectMeta: objectMeta(childName)} },
	"PodDisruptionBudget": func() runtime.Object { return &policyv1.PodDisruptionBudget{ObjectMeta: objectMeta(childName)} },
	"HorizontalPodAutoscaler": func() runtime.Object {
		return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: objectMeta(childName)}
	},
}

func TestAStrangersObjectThatTheCacheDoesNotSelect(t *testing.T) {
	for kind, stranger := range strangers {
		t.Run(kind, func(t *testing.T) {
			foreign := stranger()
			run(t, []runtime.Object{aWorkspace(), aClass(), foreign}, func(f *fixture) {
				after, err := f.syncOnce()
				if err == nil || after != 30*time.Second {
					f.t.Errorf("look again after %s, error %v; want 30s and an error", after, err)
				}
				f.expectRequests(append(until("create "+kind), "get "+kind, "status Workspace")...)
				f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
				f.expectEvents("Warning NameConflict")

				_, _ = f.syncOnce()
				f.expectRequests("create "+kind, "get "+kind)
				f.expectEvents()
			})
		})
	}
}

func TestAStrangersObjectThatTheCacheSelects(t *testing.T) {
	for kind, stranger := range strangers {
		t.Run(kind, func(t *testing.T) {
			foreign := stranger()
			foreign.(metav1.Object).SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
			run(t, []runtime.Object{aWorkspace(), aClass(), foreign}, func(f *fixture) {
				after, err := f.syncOnce()
				if err != nil || after != 30*time.Second {
					f.t.Errorf("look again after %s, error %v; want 30s: nobody tells when the name is free", after, err)
				}
				f.expectRequests("status Workspace")
				f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
				f.settle()
				f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
			})
		})
	}
}

func TestOurOwnChildThatLostItsLabel(t *testing.T) {
	for kind, child := range strangers {
		if kind == "Secret" {
			continue // the Secret is ours by its labels
		}
		t.Run(kind, func(t *testing.T) {
			own := child()
			own.(metav1.Object).SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Workspace", Name: "shop", UID: "uid-of-shop", Controller: new(true),
			}})
			run(t, []runtime.Object{aWorkspace(), aClass(), own}, func(f *fixture) {
				if _, err := f.syncOnce(); err != nil {
					f.t.Fatal(err)
				}
				want := slices.Clone(everything)
				i := slices.Index(want, "create "+kind)
				f.expectRequests(slices.Insert(want, i+1, "get "+kind, "apply "+kind)...)
			})
		})
	}
}

func TestAPanicShowsOnTheWorkspaceOnce(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		f.crashed(f.t.Context(), shop)
		synctest.Wait()
		f.expectRequests("status Workspace")
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonInternalError)
		f.expectEvents("Warning InternalError")
		f.crashed(f.t.Context(), shop)
		f.expectRequests()

		ws, err := f.workspaces.Workspaces("bank").Get("shop")
		if err != nil {
			f.t.Fatal(err)
		}
		for _, c := range ws.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady && strings.Contains(c.Message, "panic") {
				f.t.Errorf("message %q, want the details to be in the log only", c.Message)
			}
		}
		f.settle()
		f.expectReady(metav1.ConditionUnknown, v1alpha1.ReasonRolloutInProgress)
	})
}

func TestAPanicOnAWorkspaceThatIsGone(t *testing.T) {
	run(t, nil, func(f *fixture) {
		f.crashed(f.t.Context(), shop)
		f.expectRequests()
	})
}
