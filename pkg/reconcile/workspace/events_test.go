// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// TestEventsTellTransitions follows one workspace through its life.
func TestEventsTellTransitions(t *testing.T) {
	complete := progressing(corev1.ConditionTrue, "NewReplicaSetAvailable", "")
	in := given(minimum(2), scaleToZero)
	for _, step := range []struct {
		name   string
		change option
		want   []string
	}{
		{"the class is not there", noClass, []string{"Warning ClusterClassNotFound"}},
		{"still not", noClass, nil},
		{"it is", func(in *workspace.Input) { in.Class = given(minimum(2), scaleToZero).Class }, nil},
		{"pods are starting", rollout(2, 2, 1), nil},
		{"they are ready", both(complete, rollout(2, 2, 2)), []string{"Normal Available"}},
		{"nothing changes", func(*workspace.Input) {}, nil},
		{"one is lost", rollout(2, 2, 1), []string{"Warning MinimumReplicasUnavailable"}},
		{"the other is lost: the same reason with other words", rollout(2, 2, 0), nil},
		{"the reason is found", pods(waits("ErrImagePull", "gone")), []string{"Warning ImagePullBackOff"}},
		{"both are back", both(pods(), rollout(2, 2, 2)), []string{"Normal Available"}},
		{"it falls asleep", idle, []string{"Normal Asleep"}},
		{"and sleeps", rollout(0, 0, 0), nil},
		{"it wakes", busy, nil},
		{"its pods are starting", rollout(2, 2, 0), nil},
		{"they are ready again", rollout(2, 2, 2), []string{"Normal Available"}},
		{"it is deleted", deleted, nil},
	} {
		before := in.Workspace.Status
		in = then(in, step.change, planned)
		var got []string
		for _, event := range condition.Events(before.Conditions, in.Workspace.Status.Conditions) {
			got = append(got, event.Type+" "+event.Reason)
			if event.Action == "" || event.Note != readyCondition(in.Workspace.Status).Message {
				t.Errorf("%s: event %+v lacks its action or the message", step.name, event)
			}
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: events %q, want %q", step.name, got, step.want)
		}
	}
}

func TestNoEventWithoutACondition(t *testing.T) {
	if got := condition.Events(nil, nil); !slices.Equal(got, []reconcile.Event(nil)) {
		t.Errorf("got %v, want none", got)
	}
}
