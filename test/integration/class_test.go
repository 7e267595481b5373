// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// A change of the class reaches every running Workspace of it.
func TestClassFansOut(t *testing.T) {
	t.Parallel()

	t.Run("minimum", func(t *testing.T) {
		t.Parallel()
		s := given(t)
		class := s.class()
		for _, w := range []*tenant{s.workspace("one", class), s.workspace("two", class)} {
			w.ready()
		}

		for _, minimum := range []int32{3, 1} {
			// when
			s.patchClass(class, fmt.Sprintf(`{"spec":{"scaling":{"minReplicas":%d}}}`, minimum))

			// then
			for _, name := range []string{"one", "two"} {
				w := &tenant{scenario: s, name: name}
				s.eventually("Workspace "+name+" follows", func() error { return w.hasReplicas(minimum) })
				w.rolledOut()
				w.ready()
				s.eventually("the budget follows", func() error { return w.hasChild("PodDisruptionBudget", minimum >= 2) })
				w.hasRevisions(1)
			}
		}
	})

	t.Run("auto-scaling", func(t *testing.T) {
		t.Parallel()
		s := given(t)
		class := s.class()
		shop := s.workspace("shop", class).ready()

		// when
		s.patchClass(class, `{"spec":{"features":["auto-scaling"]}}`)

		// then
		s.eventually("there is an autoscaler", func() error { return shop.hasChild("HorizontalPodAutoscaler", true) })
		s.kubectl("scale", "deployment/formspec-resource-shop", "--replicas=3")
		s.eventually("its count is left alone", func() error {
			if shop.patch(`{"metadata":{"annotations":{"example.com/look":"again"}}}`); shop.deployment().Status.ReadyReplicas != 3 {
				return fmt.Errorf("%d replicas are ready, want 3", shop.deployment().Status.ReadyReplicas)
			}
			return nil
		})

		// when
		s.patchClass(class, `{"spec":{"features":[]}}`)

		// then
		s.eventually("the autoscaler is gone", func() error { return shop.hasChild("HorizontalPodAutoscaler", false) })
		s.eventually("the minimum is back", func() error { return shop.hasReplicas(1) })
		shop.rolledOut()
		shop.ready()
		shop.hasRevisions(1)
		if err := shop.asRendered(); err != nil {
			t.Error(err)
		}
	})

	t.Run("configuration does not roll the pods", func(t *testing.T) {
		t.Parallel()
		s := given(t)
		class := s.class()
		shop := s.workspace("shop", class).ready()
		before := shop.podUIDs()

		// when
		start := s.now()
		s.patchClass(class, `{"spec":{"sla":"99.9","storage":"nvme"}}`)

		// then
		s.eventually("the ConfigMap follows", shop.asRendered)
		shop.ready()
		if writes := s.sent(start, about("deployments"), request.write); len(writes) > 0 {
			t.Errorf("the Deployment was written:%s", list(writes))
		}
		if after := shop.podUIDs(); !after.Equal(before) {
			t.Errorf("the pods were replaced: %v before, %v after", before, after)
		}
	})
}

// The annotation restarts the pods once; when it vanishes nothing changes.
func TestArtifactHash(t *testing.T) {
	t.Parallel()
	s := given(t)
	shop := s.workspace("shop", s.class()).ready()

	for i, hash := range []string{"one", "two"} {
		// when
		shop.patch(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationArtifactHash + `":"` + hash + `"}}}`)

		// then
		s.eventually("the template has the hash", func() error { return shop.hasHash(hash) })
		shop.rolledOut()
		shop.ready()
		shop.hasRevisions(2 + i)
	}

	// when
	before, start := shop.podUIDs(), s.now()
	shop.patch(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationArtifactHash + `":null}}}`)
	shop.patch(`{"spec":{"owner":"somebody"}}`)
	shop.ready()

	// then
	if err := shop.hasHash("two"); err != nil {
		t.Error(err)
	}
	if writes := s.sent(start, about("deployments"), request.write); len(writes) > 0 {
		t.Errorf("the Deployment was written:%s", list(writes))
	}
	if after := shop.podUIDs(); !after.Equal(before) {
		t.Errorf("the pods were replaced: %v before, %v after", before, after)
	}
}

func (w *tenant) hasReplicas(want int32) error {
	if have := *w.deployment().Spec.Replicas; have != want {
		return fmt.Errorf("the Deployment has %d replicas, want %d", have, want)
	}
	return nil
}

func (w *tenant) hasChild(kind string, want bool) error {
	if have := w.child(kindOf(kind)) != nil; have != want {
		return fmt.Errorf("that there is a %s is %v, want %v", kind, have, want)
	}
	return nil
}

func (w *tenant) hasHash(want string) error {
	if have := w.deployment().Spec.Template.Annotations[v1alpha1.AnnotationArtifactHash]; have != want {
		return fmt.Errorf("the template has the hash %q, want %q", have, want)
	}
	return nil
}

// hasRevisions checks how often the pods were rolled.
func (w *tenant) hasRevisions(want int) {
	w.Helper()
	if have := len(w.replicaSets()); have != want {
		w.Errorf("Workspace %s has %d ReplicaSets, want %d", w.name, have, want)
	}
}

// podUIDs are the pods that stay.
func (w *tenant) podUIDs() sets.Set[types.UID] {
	w.Helper()
	uids := sets.New[types.UID]()
	for _, pod := range w.pods() {
		if pod.DeletionTimestamp == nil {
			uids.Insert(pod.UID)
		}
	}
	return uids
}
