// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// How a child is created without reading first: an apply with the resourceVersion "1" goes to a free name only.
func TestCreateOnlyApply(t *testing.T) {
	t.Parallel()
	s := given(t)
	documents, err := s.render(`
apiVersion: formspec.dev/v1alpha1
kind: ClusterClass
metadata: {name: any}
spec: {features: [auto-scaling], scaling: {minReplicas: 2, scaleToZero: true}}
---
apiVersion: formspec.dev/v1alpha1
kind: Workspace
metadata: {name: shop, namespace: ` + s.namespace + `}
spec: {clusterClass: any}
`)
	s.must("render", err)
	slice := kindOf("EndpointSlice").object("shop") // render has none: it knows no activator
	slice.Object["addressType"] = "IPv4"
	objects := append(s.decode(documents), slice.Object)
	if want := len(childKinds) + len(sleeperKinds); len(objects) != want {
		t.Fatalf("%d objects are rendered, want one of each of the %d kinds", len(objects), want)
	}
	for _, fields := range objects {
		object := &unstructured.Unstructured{Object: fields}
		k := kindOf(object.GetKind())
		options := metav1.ApplyOptions{FieldManager: "create-only", Force: true}
		object.SetOwnerReferences(nil) // there is no such Workspace
		object.SetLabels(map[string]string{"example.com/test": "first"})
		object.SetResourceVersion("1")

		created, err := k.of(s).Apply(s.Context(), object.GetName(), object, options)
		if err != nil {
			t.Errorf("%s: a free name was not taken: %v", k.kind, err)
			continue
		}
		object.SetLabels(map[string]string{"example.com/test": "second"})
		if _, err := k.of(s).Apply(s.Context(), object.GetName(), object, options); !apierrors.IsConflict(err) {
			t.Errorf("%s: a taken name answers %v, want a conflict", k.kind, err)
		}
		after, err := k.of(s).Get(s.Context(), object.GetName(), metav1.GetOptions{})
		s.must("get the "+k.kind, err)
		if after.GetUID() != created.GetUID() || after.GetGeneration() != created.GetGeneration() || after.GetLabels()["example.com/test"] != "first" {
			t.Errorf("%s: the object under the taken name was changed: %v", k.kind, after)
		}
	}
}

// theirs are objects of somebody else, by kind.
var theirs = map[string]string{
	"Secret":    `{"data":{"password":"c2VjcmV0"}}`,
	"ConfigMap": `{"data":{"theirs":"yes"}}`,
	"Service":   `{"spec":{"ports":[{"port":80}],"selector":{"app":"theirs"}}}`,
	"Deployment": `{"spec":{"replicas":0,"selector":{"matchLabels":{"app":"theirs"}},"template":{"metadata":{"labels":{"app":"theirs"}},
		"spec":{"containers":[{"name":"theirs","image":"example.com/theirs:1"}]}}}}`,
	"PodDisruptionBudget":     `{"spec":{"maxUnavailable":1,"selector":{"matchLabels":{"app":"theirs"}}}}`,
	"EndpointSlice":           `{"addressType":"IPv4","endpoints":[{"addresses":["10.9.9.9"]}]}`,
	"HorizontalPodAutoscaler": `{"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"theirs"}}}`,
}

// disguises are how objects of somebody else look.
var disguises = map[string]func(object, owner *unstructured.Unstructured){
	"a stranger's": func(*unstructured.Unstructured, *unstructured.Unstructured) {},
	"a stranger's with our labels": func(object, owner *unstructured.Unstructured) {
		object.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelWorkspace: "shop"})
		controller := true
		object.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID(), Controller: &controller,
		}})
	},
}

// An object that is not ours is never touched, wherever its name comes from. FR-03.
func TestForeignChildren(t *testing.T) {
	t.Parallel()
	for _, k := range childKinds {
		for who, disguise := range disguises {
			t.Run(k.kind+" of "+who, func(t *testing.T) {
				t.Parallel()
				shop := given(t).refused(k, disguise, full)
				if err := shop.asRendered(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Nor are those that only a Workspace has which an activator wakes.
func foreignChildrenOfASleeper(t *testing.T, env *environment) {
	t.Helper()
	givenIn(t, env).activator("10.9.0.1")
	for _, k := range sleeperKinds {
		for who, disguise := range disguises {
			t.Run(k.name("shop")+" of "+who, func(t *testing.T) {
				t.Parallel()
				shop := givenIn(t, env).refused(k, disguise, full, economy(time.Hour))
				if child := shop.child(k); child == nil || !metav1.IsControlledBy(child, shop.get()) {
					t.Errorf("the %s is %v, want the Workspace's own", k.kind, child)
				}
			})
		}
	}
}

// refused makes a Workspace, one of whose names is taken by a child of that kind, makes it again, and returns it once the name is free.
func (s *scenario) refused(k childKind, disguise func(object, owner *unstructured.Unstructured), classed ...func(*v1alpha1.ClusterClass)) *tenant {
	s.Helper()
	class, foreign := s.class(classed...), s.foreign(k, disguise)

	// when
	shop := s.workspace("shop", class)

	// then
	shop.failing(v1alpha1.ReasonNameConflict, k.kind, foreign.GetName())
	s.untouched(k, foreign)

	// when
	shop.delete(metav1.DeletePropagationBackground)

	// then
	s.untouched(k, foreign)

	// when
	shop = s.workspace("shop", class)

	// then
	shop.failing(v1alpha1.ReasonNameConflict, k.kind, foreign.GetName())
	s.untouched(k, foreign)
	s.must("remove it", k.of(s).Delete(s.Context(), foreign.GetName(), metav1.DeleteOptions{}))
	s.within(time.Minute, "Workspace shop is Ready", func() error { return readyNow(shop.get()) })
	if count := shop.events(v1alpha1.ReasonNameConflict); count != 1 {
		s.Errorf("there are %d events about the conflict, want 1", count)
	}
	return shop
}

// foreign creates an object under the name of a child of the Workspace shop, and waits until Kubernetes' own controllers have seen it.
func (s *scenario) foreign(k childKind, disguise func(object, owner *unstructured.Unstructured)) *unstructured.Unstructured {
	s.Helper()
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(kindOf("ConfigMap").gvk())
	owner.SetName("theirs")
	owner, err := kindOf("ConfigMap").of(s).Create(s.Context(), owner, metav1.CreateOptions{})
	s.must("create their ConfigMap", err)

	object := k.object("shop")
	var fields map[string]any
	s.must("decode their "+k.kind, json.Unmarshal([]byte(theirs[k.kind]), &fields))
	maps.Copy(object.Object, fields)
	disguise(object, owner)
	object, err = k.of(s).Create(s.Context(), object, metav1.CreateOptions{FieldManager: "somebody"})
	s.must("create their "+k.kind, err)
	s.eventually("their "+k.kind+" is settled", func() error {
		object, err = k.of(s).Get(s.Context(), object.GetName(), metav1.GetOptions{})
		s.must("get their "+k.kind, err)
		return settledNow(object)
	})
	return object
}

// settledNow returns an error while Kubernetes' own controllers have not yet written the status that they will.
func settledNow(object *unstructured.Unstructured) error {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	switch object.GetKind() {
	case "Deployment", "PodDisruptionBudget":
		if observed != object.GetGeneration() || len(conditions) == 0 {
			return fmt.Errorf("its status is %v", object.Object["status"])
		}
	case "HorizontalPodAutoscaler":
		if len(conditions) == 0 {
			return fmt.Errorf("its status is %v", object.Object["status"])
		}
	}
	return nil
}

// untouched checks that an object is as it was, to the last bit, and that no operator tried to change it.
func (s *scenario) untouched(k childKind, before *unstructured.Unstructured) {
	s.Helper()
	after, err := k.of(s).Get(s.Context(), before.GetName(), metav1.GetOptions{})
	s.must("get their "+k.kind, err)
	if after.GetUID() != before.GetUID() || after.GetResourceVersion() != before.GetResourceVersion() {
		s.Errorf("their %s was touched:\nbefore %s\nafter  %s", k.kind, pretty(before), pretty(after))
	}
}

// events counts the events about this very Workspace with a reason.
func (w *tenant) events(reason string) int {
	w.Helper()
	events, err := w.kube.EventsV1().Events(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must("list the events", err)
	uid, count := w.get().UID, 0
	for _, event := range events.Items {
		if event.Regarding.UID == uid && event.Reason == reason {
			count += 1
		}
	}
	return count
}
