// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package keda_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
)

const manager = "formspec-workspace"

func given() *keda.HTTPScaledObject {
	o := keda.New("formspec-resource-shop", "bank")
	o.WithLabels(map[string]string{"a.example.com/b": "c"})
	o.WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion("formspec.dev/v1alpha1").WithKind("Workspace").WithName("shop").WithUID("uid-of-shop").WithController(true))
	o.Spec = &keda.Spec{
		Hosts:           []string{"shop.example.com", "formspec-resource-shop"},
		ScaleTargetRef:  keda.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "formspec-resource-shop", Service: "formspec-resource-shop", Port: 80},
		Replicas:        keda.Replicas{Max: 3},
		ScaledownPeriod: 300,
	}
	return o
}

// applied is what an API server makes of it: others have added fields, and defaults.
func applied(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(given())
	if err != nil {
		t.Fatal(err)
	}
	live := &unstructured.Unstructured{Object: object}
	live.SetUID("uid-of-it")
	live.SetResourceVersion("7")
	live.SetFinalizers([]string{"httpscaledobject.http.keda.sh"})
	labels := live.GetLabels()
	labels["theirs"] = "yes"
	live.SetLabels(labels)
	live.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "keda", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{}}}`)},
		{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "http.keda.sh/v1alpha1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{
			"f:metadata":{"f:labels":{"f:a.example.com/b":{}},"f:ownerReferences":{"k:{\"uid\":\"uid-of-shop\"}":{}}},
			"f:spec":{"f:hosts":{},"f:replicas":{"f:min":{},"f:max":{}},"f:scaledownPeriod":{},
			"f:scaleTargetRef":{"f:apiVersion":{},"f:kind":{},"f:name":{},"f:port":{},"f:service":{}}}}`)},
	})
	return live
}

func TestExtractReturnsWhatWasApplied(t *testing.T) {
	got, err := keda.Extract(applied(t), manager)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(got, given()) {
		t.Errorf("extracted %+v %+v, want %+v %+v", got, got.Spec, given(), given().Spec)
	}
}

func TestExtractFindsDrift(t *testing.T) {
	live := applied(t)
	if err := unstructured.SetNestedField(live.Object, int64(100), "spec", "replicas", "max"); err != nil {
		t.Fatal(err)
	}
	got, err := keda.Extract(live, manager)
	if err != nil {
		t.Fatal(err)
	}
	if equality.Semantic.DeepEqual(got, given()) || got.Spec.Replicas.Max != 100 {
		t.Errorf("extracted %+v, want the drift", got.Spec)
	}
}

func TestExtractOfAStranger(t *testing.T) {
	got, err := keda.Extract(applied(t), "somebody")
	if err != nil || got.Spec != nil || len(got.Labels) != 0 {
		t.Errorf("extracted %+v, error %v, want nothing", got, err)
	}
}
