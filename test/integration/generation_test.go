// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// "kubectl patch && kubectl wait" returns when the new pods run, not when the old ones still do.
func TestWaitReturnsAfterTheRollout(t *testing.T) {
	t.Parallel()
	s := given(t)
	shop := s.workspace("shop", s.class(image("example.com/app:slow"))).ready() // its pods take ten seconds

	// when
	s.kubectl("patch", "workspace", "shop", "--type=merge", "-p", `{"spec":{"resources":{"memory":"320Mi"}}}`)
	s.kubectl("wait", "--for=condition=Ready", "workspace/shop", "--timeout="+patience.String())

	// then
	if err := rolledOutNow(shop.deployment()); err != nil {
		t.Errorf("kubectl wait returned before the rollout was complete: %v", err)
	}
	if sets := shop.replicaSets(); len(sets) != 2 {
		t.Errorf("there are %d ReplicaSets, want 2", len(sets))
	}
	for _, pod := range shop.pods() {
		if memory := pod.Spec.Containers[0].Resources.Requests.Memory().String(); pod.DeletionTimestamp == nil && memory != "320Mi" {
			t.Errorf("pod %s still has %s", pod.Name, memory)
		}
	}
}

func image(reference string) func(*v1alpha1.ClusterClass) {
	return func(class *v1alpha1.ClusterClass) { class.Spec.ResourceImage = reference }
}

// However fast the edits come, the status catches up with the last one; an edit that changes nothing changes nothing.
func TestRapidEdits(t *testing.T) {
	t.Parallel()
	s := given(t)
	shop := s.workspace("shop", s.class()).ready()

	// when
	for i := range 50 {
		shop.patch(fmt.Sprintf(`{"spec":{"resources":{"memory":"%dMi"}}}`, 301+i))
	}

	// then
	shop.ready()
	ws := shop.get()
	if ws.Generation != 51 {
		t.Errorf("the generation is %d, want 51", ws.Generation)
	}
	for _, c := range ws.Status.Conditions {
		if c.ObservedGeneration != ws.Generation {
			t.Errorf("condition %s is of generation %d, want %d", c.Type, c.ObservedGeneration, ws.Generation)
		}
	}
	if memory := shop.deployment().Spec.Template.Spec.Containers[0].Resources.Requests.Memory().String(); memory != "350Mi" {
		t.Errorf("the pods have %s, want 350Mi", memory)
	}

	// when
	before, start := shop.get(), s.now()
	after := shop.patch(`{"spec":{"resources":{"memory":"350Mi"}}}`)

	// then
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the edit changed something: %s", pretty(after))
	}
	if sent := s.sent(start); len(sent) > 0 {
		t.Errorf("the operator did something:%s", list(sent))
	}
}
