// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// Whatever happens to a Workspace under an autoscaler, the replica count that the autoscaler chose stays.
func replicasBelongToTheAutoscaler(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	shop := s.workspace("shop", s.class(full)).ready()
	s.kubectl("scale", "deployment/formspec-resource-shop", "--replicas=5")
	shop.rolledOut()
	counts := shop.watchReplicas()

	for _, step := range []struct {
		name string
		do   func()
	}{
		{"annotate the Workspace", func() { shop.patch(`{"metadata":{"annotations":{"example.com/hint":"annotation"}}}`) }},
		{"change its resources", func() { shop.patch(`{"spec":{"resources":{"memory":"320Mi"}}}`) }},
		{"kill the operator", func() { s.restart(syscall.SIGKILL) }},
		{"change its resources with a new operator", func() { shop.patch(`{"spec":{"resources":{"memory":"340Mi"}}}`) }},
		{"delete its ConfigMap", func() { shop.deleteChild(kindOf("ConfigMap")) }},
		{"delete its autoscaler", func() { shop.deleteChild(kindOf("HorizontalPodAutoscaler")) }},
		{"change the image of the Deployment", func() {
			shop.patchChild(kindOf("Deployment"), `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/other:1"}]`)
		}},
		{"stop the operator and change its resources meanwhile", func() {
			s.whileStopped(func() { shop.patch(`{"spec":{"resources":{"memory":"360Mi"}}}`) })
		}},
	} {
		step.do()
		s.eventually(step.name, shop.asScaled)
		shop.rolledOut()
		shop.patch(fmt.Sprintf(`{"spec":{"owner":%q}}`, step.name)) // the operator has seen what the step did
		shop.ready()
	}

	// then
	for _, count := range counts() {
		if count < 5 {
			t.Errorf("there were %d replicas at a time, want never less than 5: %v", count, counts())
			break
		}
	}
	if have := *shop.deployment().Spec.Replicas; have != 5 {
		t.Errorf("there are %d replicas, want 5", have)
	}
}

// asScaled is asRendered but for the replica count, which the operator has given up.
func (w *tenant) asScaled() error {
	want, have := w.rendered(), w.applied()
	delete(want["Deployment"]["spec"].(map[string]any), "replicas")
	if spec, ok := have["Deployment"]["spec"].(map[string]any); ok && spec["replicas"] != nil {
		return fmt.Errorf("the operator still states %v replicas", spec["replicas"])
	}
	return sameChildren(want, have)
}

// watchReplicas collects the replica counts of the Deployment from now on. The returned function returns them.
func (w *tenant) watchReplicas() func() []int32 {
	w.Helper()
	events, err := w.kube.AppsV1().Deployments(w.namespace).Watch(w.Context(), metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, names.Deployment(w.name)).String(),
		ResourceVersion: w.deployment().ResourceVersion,
	})
	w.must("watch the Deployment", err)
	w.Cleanup(events.Stop)
	var mu sync.Mutex
	var counts []int32
	go func() {
		for event := range events.ResultChan() {
			d, ok := event.Object.(*appsv1.Deployment)
			mu.Lock()
			if ok && event.Type != watch.Deleted {
				counts = append(counts, *d.Spec.Replicas)
			} else {
				counts = append(counts, 0) // it was deleted, or the watch has failed
			}
			mu.Unlock()
		}
	}()
	return func() []int32 {
		mu.Lock()
		defer mu.Unlock()
		return append([]int32(nil), counts...)
	}
}
