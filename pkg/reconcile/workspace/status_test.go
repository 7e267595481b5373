// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

func TestTransitionTimesMoveOnlyWhenAStatusFlips(t *testing.T) {
	in := given(minimum(2), settled)
	want := start // of the last flip
	for _, step := range []struct {
		name   string
		change option
		flips  bool
	}{
		{"one replica is available", rollout(2, 2, 1), false},
		{"both are", rollout(2, 2, 2), true},
		{"nothing happens", func(*workspace.Input) {}, false},
		{"one is lost", both(progressing(corev1.ConditionTrue, "NewReplicaSetAvailable", ""), rollout(2, 2, 1)), true},
		{"the other is lost too", rollout(2, 2, 0), false},
		{"their image is gone: another reason for the same status", pods(waits("ErrImagePull", "gone")), false},
		{"both are back", both(pods(), rollout(2, 2, 2)), true},
		{"the generation moves, nothing else", object(func(ws *v1alpha1.Workspace) { ws.Generation++ }), false},
	} {
		in = then(in, func(in *workspace.Input) { in.Now = in.Now.Add(time.Minute) }, step.change, planned)
		if step.flips {
			want = in.Now
		}
		got := readyCondition(in.Workspace.Status)
		if !got.LastTransitionTime.Time.Equal(want) {
			t.Errorf("after %q: Ready is %s since %s, want since %s", step.name, got.Status, got.LastTransitionTime.UTC(), want)
		}
		if got.ObservedGeneration != in.Workspace.Generation {
			t.Errorf("after %q: Ready is of generation %d, want %d", step.name, got.ObservedGeneration, in.Workspace.Generation)
		}
	}
}

func TestTheFirstReadyTimeIsSetOnce(t *testing.T) {
	in := given(scaleToZero, settled)
	firstReady := func() string {
		if in.Workspace.Status.FirstReadyTime == nil {
			return "never"
		}
		return in.Workspace.Status.FirstReadyTime.UTC().Format(time.TimeOnly)
	}
	for _, step := range []struct {
		name   string
		change option
		want   string
	}{
		{"starting", at(time.Minute), "never"},
		{"idle before it was ever ready: asleep is no proof that it can run", both(at(2*time.Minute), idle), "never"},
		{"woken", both(at(3*time.Minute), busy), "never"},
		{"ready", both(at(4*time.Minute), rollout(1, 1, 1)), "10:04:00"},
		{"lost", both(at(5*time.Minute), rollout(1, 1, 0)), "10:04:00"},
		{"ready again", both(at(6*time.Minute), rollout(1, 1, 1)), "10:04:00"},
		{"deleted", both(at(7*time.Minute), deleted), "10:04:00"},
	} {
		in = then(in, step.change, planned)
		if got := firstReady(); got != step.want {
			t.Errorf("%s: first ready at %s, want %s", step.name, got, step.want)
		}
	}
}

func TestTheArtifactHash(t *testing.T) {
	hash := func(value string) option { return annotated(v1alpha1.AnnotationArtifactHash, value) }
	noHash := object(func(ws *v1alpha1.Workspace) { delete(ws.Annotations, v1alpha1.AnnotationArtifactHash) })
	known := func(artifact v1alpha1.ArtifactStatus) option {
		return object(func(ws *v1alpha1.Workspace) { ws.Status.Artifact = &artifact })
	}
	requested := v1alpha1.ArtifactStatus{Hash: "from-control", Version: "1.2.3", Cursor: 42}

	for name, row := range map[string]struct {
		options  []option
		template string
		status   *v1alpha1.ArtifactStatus
	}{
		"there is none":                               {nil, "", nil},
		"an annotation":                               {[]option{hash("abc")}, "abc", &v1alpha1.ArtifactStatus{Hash: "abc"}},
		"an annotation that changes":                  {[]option{hash("abc"), settled, hash("def")}, "def", &v1alpha1.ArtifactStatus{Hash: "def"}},
		"an annotation that vanishes changes nothing": {[]option{hash("abc"), settled, noHash}, "abc", &v1alpha1.ArtifactStatus{Hash: "abc"}},
		"an annotation that is emptied changes nothing": {
			[]option{hash("abc"), settled, hash("")}, "abc", &v1alpha1.ArtifactStatus{Hash: "abc"},
		},
		"the control plane's": {[]option{known(requested)}, "from-control", &requested},
		"an annotation wins over the control plane's, and keeps its place in the order": {
			[]option{known(requested), hash("abc")}, "abc", &v1alpha1.ArtifactStatus{Hash: "abc", Cursor: 42},
		},
		"an annotation that equals the control plane's keeps its version": {
			[]option{known(requested), hash("from-control")}, "from-control", &requested,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(row.options...)
			if got := asJSON(workspace.Make(in).Status.Artifact); got != asJSON(row.status) {
				t.Errorf("status has %s, want %s", got, asJSON(row.status))
			}
			settle(&in)
			got, there := in.Children.Deployment.Live.Spec.Template.Annotations[v1alpha1.AnnotationArtifactHash]
			if got != row.template || there != (row.template != "") {
				t.Errorf("pods have %q (%v), want %q", got, there, row.template)
			}
		})
	}
}

func TestAutoscalingActiveMirrorsTheAutoscaler(t *testing.T) {
	reports := func(status corev1.ConditionStatus, reason, message string) option {
		return func(in *workspace.Input) {
			in.Children.Autoscaler.Live.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{
				{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue, Reason: "ReadyForNewScale"},
				{Type: autoscalingv2.ScalingActive, Status: status, Reason: reason, Message: message},
			}
		}
	}
	noMetrics := reports(corev1.ConditionFalse, "FailedGetResourceMetric", "no metrics")
	for name, row := range map[string]struct {
		options []option
		status  metav1.ConditionStatus // empty: the condition is absent
		reason  string
	}{
		"there is no autoscaler":        {[]option{settled, ready(1)}, "", ""},
		"it has not looked yet":         {[]option{autoScaling, settled, ready(1)}, "", ""},
		"it computes":                   {[]option{autoScaling, settled, ready(1), reports(corev1.ConditionTrue, "ValidMetricFound", "")}, isTrue, v1alpha1.ReasonScalingActive},
		"there are no metrics":          {[]option{autoScaling, settled, ready(1), noMetrics}, isFalse, "FailedGetResourceMetric"},
		"asleep it says nothing":        {[]option{autoScaling, scaleToZero, settled, ready(1), noMetrics, planned, idle}, "", ""},
		"auto-scaling was switched off": {[]option{autoScaling, settled, ready(1), noMetrics, planned, noAutoScaling}, "", ""},
		"the class is gone":             {[]option{autoScaling, settled, ready(1), noMetrics, planned, noClass}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			status := workspace.Make(given(row.options...)).Status
			if got := conditionOf(status, v1alpha1.ConditionAutoscalingActive); got.Status != row.status || got.Reason != row.reason {
				t.Errorf("AutoscalingActive is %q %q, want %q %q", got.Status, got.Reason, row.status, row.reason)
			}
			if ready := readyCondition(status); row.status == isFalse && ready.Status != isTrue {
				t.Errorf("Ready is %s %s, want True: it serves with the replicas it has", ready.Status, ready.Reason)
			}
		})
	}
}

func TestConditionsOfOthersAreKept(t *testing.T) {
	other := metav1.Condition{Type: "example.com/Billed", Status: isTrue, Reason: "Paid", LastTransitionTime: metav1.NewTime(start.Add(-time.Hour))}
	in := given(object(func(ws *v1alpha1.Workspace) { ws.Status.Conditions = []metav1.Condition{other} }))
	if got := conditionOf(workspace.Make(in).Status, other.Type); got != other {
		t.Errorf("got %s, want it as it was: %s", asJSON(got), asJSON(other))
	}
}
