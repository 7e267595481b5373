// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// kinds are all that a Writer writes: the desired state, the same as an object that is there, and its resource.
var kinds = map[string]struct {
	config   func() reconcile.Config
	object   func(metav1.ObjectMeta) runtime.Object
	resource string
}{
	"Secret": {
		func() reconcile.Config { return corev1ac.Secret("shop", "bank") },
		func(m metav1.ObjectMeta) runtime.Object { return &corev1.Secret{ObjectMeta: m} }, "secrets",
	},
	"ConfigMap": {
		func() reconcile.Config { return corev1ac.ConfigMap("shop", "bank") },
		func(m metav1.ObjectMeta) runtime.Object { return &corev1.ConfigMap{ObjectMeta: m} }, "configmaps",
	},
	"Service": {
		func() reconcile.Config { return corev1ac.Service("shop", "bank") },
		func(m metav1.ObjectMeta) runtime.Object { return &corev1.Service{ObjectMeta: m} }, "services",
	},
	"Deployment": {
		func() reconcile.Config { return appsv1ac.Deployment("shop", "bank") },
		func(m metav1.ObjectMeta) runtime.Object { return &appsv1.Deployment{ObjectMeta: m} }, "deployments",
	},
	"PodDisruptionBudget": {
		func() reconcile.Config { return policyv1ac.PodDisruptionBudget("shop", "bank") },
		func(m metav1.ObjectMeta) runtime.Object { return &policyv1.PodDisruptionBudget{ObjectMeta: m} }, "poddisruptionbudgets",
	},
	"HorizontalPodAutoscaler": {
		func() reconcile.Config { return autoscalingv2ac.HorizontalPodAutoscaler("shop", "bank") },
		func(m metav1.ObjectMeta) runtime.Object { return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: m} }, "horizontalpodautoscalers",
	},
}

func existing(uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "bank", Name: "shop", UID: uid, ResourceVersion: "7"}
}

// create is the write of a child that the cache does not have.
func create(config reconcile.Config) reconcile.Write {
	return reconcile.Write{Config: config, Create: true}
}

// server is a fake clientset with two rules of the API server that the fake one lacks: an apply with a resourceVersion or a UID is
// refused with a conflict unless the object has just that.
func server(objects ...runtime.Object) *fake.Clientset {
	client := fake.NewClientset(objects...)
	client.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		if patch.GetPatchType() != types.ApplyPatchType {
			return false, nil, nil
		}
		var sent metav1.PartialObjectMetadata
		if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil {
			return true, nil, err
		}
		version, uid := "", types.UID("")
		if found, err := client.Tracker().Get(patch.GetResource(), patch.GetNamespace(), patch.GetName()); err == nil {
			live := found.(metav1.Object)
			version, uid = live.GetResourceVersion(), live.GetUID()
		}
		exists := uid != ""
		if (exists && sent.ResourceVersion != "" && sent.ResourceVersion != version) || (sent.UID != "" && sent.UID != uid) {
			return true, nil, apierrors.NewConflict(patch.GetResource().GroupResource(), patch.GetName(), errors.New("precondition"))
		}
		return false, nil, nil
	})
	return client
}

// requests are what a client sent, each with its preconditions.
func requests(t *testing.T, client *fake.Clientset) []string {
	t.Helper()
	var all []string
	for _, action := range client.Actions() {
		text := action.GetVerb() + " " + action.GetResource().Resource
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			if a.GetPatchType() == types.JSONPatchType {
				break
			}
			var sent metav1.PartialObjectMetadata
			if err := json.Unmarshal(a.GetPatch(), &sent); err != nil {
				t.Fatal(err)
			}
			if a.GetPatchType() != types.ApplyPatchType || a.PatchOptions.FieldManager != "formspec-test" || !*a.PatchOptions.Force {
				t.Errorf("%s is %s of manager %q, want a forced apply of formspec-test", text, a.GetPatchType(), a.PatchOptions.FieldManager)
			}
			text = fmt.Sprintf("apply %s version=%q uid=%q", action.GetResource().Resource, sent.ResourceVersion, sent.UID)
		case clienttesting.DeleteActionImpl:
			text = fmt.Sprintf("%s uid=%q %s", text, *a.DeleteOptions.Preconditions.UID, *a.DeleteOptions.PropagationPolicy)
		}
		all = append(all, text)
	}
	return all
}

func ours(object metav1.Object) bool { return object.GetUID() == "ours" }

func TestApplyCreatesUnderAFreeNameOnly(t *testing.T) {
	for kind, k := range kinds {
		for name, row := range map[string]struct {
			there []runtime.Object
			want  []string
			taken bool
		}{
			"a free name": {
				nil, []string{`apply ` + k.resource + ` version="1" uid=""`}, false,
			},
			"a name that a stranger has: it is read once and not written": {
				[]runtime.Object{k.object(existing("theirs"))},
				[]string{`apply ` + k.resource + ` version="1" uid=""`, `get ` + k.resource},
				true,
			},
			"a name that our own has, unseen by the cache": {
				[]runtime.Object{k.object(existing("ours"))},
				[]string{`apply ` + k.resource + ` version="1" uid=""`, `get ` + k.resource, `apply ` + k.resource + ` version="7" uid="ours"`},
				false,
			},
		} {
			t.Run(kind+" under "+name, func(t *testing.T) {
				client := server(row.there...)
				before := stored(t, client, k.resource)
				writer := apply.Writer{Client: client, Manager: "formspec-test"}
				result, err := writer.Apply(t.Context(), create(k.config()), ours)

				var taken *apply.NameTakenError
				if errors.As(err, &taken) != row.taken || (err != nil) != row.taken {
					t.Fatalf("error %v, want a taken name: %v", err, row.taken)
				}
				if row.taken && (taken.Kind != kind || taken.Namespace != "bank" || taken.Name != "shop" || !strings.Contains(err.Error(), kind+" bank/shop")) {
					t.Errorf("error %+v, want it to name %s bank/shop", taken, kind)
				}
				if result.Rewritten != nil {
					t.Errorf("said to be rewritten to %s, and arrived as it was sent", reconcile.Fingerprint(result.Rewritten))
				}
				if got := requests(t, client); !slices.Equal(got, row.want) {
					t.Errorf("requests\n got %q\nwant %q", got, row.want)
				}
				if after := stored(t, client, k.resource); row.taken && before != after {
					t.Errorf("the stranger's object was changed:\n%s\n%s", before, after)
				} else if after == "" {
					t.Error("there is no object afterwards")
				}
			})
		}
	}
}

// stored is the object as the server has it. Empty: there is none.
func stored(t *testing.T, client *fake.Clientset, resource string) string {
	t.Helper()
	groups := map[string]schema.GroupVersionResource{
		"deployments": appsv1.SchemeGroupVersion.WithResource(resource), "poddisruptionbudgets": policyv1.SchemeGroupVersion.WithResource(resource),
		"horizontalpodautoscalers": autoscalingv2.SchemeGroupVersion.WithResource(resource),
	}
	gvr, found := groups[resource]
	if !found {
		gvr = corev1.SchemeGroupVersion.WithResource(resource)
	}
	object, err := client.Tracker().Get(gvr, "bank", "shop")
	if err != nil {
		return ""
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
