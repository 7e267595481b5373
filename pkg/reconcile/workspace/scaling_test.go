// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// counts says what a plan does with the replica count and with the autoscaler.
func counts(in workspace.Input) string {
	plan, text := workspace.Make(in), "Deployment unchanged"
	for _, write := range plan.Apply {
		if *write.Config.GetKind() != "Deployment" {
			continue
		}
		d := decode[*appsv1.Deployment](write.Config)
		if text = "replicas left alone"; d.Spec.Replicas != nil {
			text = fmt.Sprintf("replicas %d", *d.Spec.Replicas)
		}
		if write.ResourceVersion != "" {
			text += " if nobody wrote meanwhile"
		}
	}
	for _, write := range plan.Apply {
		if *write.Config.GetKind() == "HorizontalPodAutoscaler" {
			text += ", autoscaler applied"
		}
	}
	for _, child := range plan.Delete {
		text += ", " + child.Kind + " deleted"
	}
	return text
}

func TestReplicas(t *testing.T) {
	newImage := settings(func(s *workspace.Settings) { s.Image = "formahub/formspec-resource:1.5.0" })

	for name, row := range map[string]struct {
		options []option
		want    string
	}{
		"a new workspace starts at the minimum": {
			[]option{minimum(3)}, "replicas 3",
		},
		"a new workspace starts at the minimum also under an autoscaler, which would start it at 1": {
			[]option{minimum(3), autoScaling}, "replicas 3, autoscaler applied",
		},
		"the minimum changes": {
			[]option{minimum(2), settled, minimum(3)}, "replicas 3",
		},
		"without an autoscaler the count is ours: a person's is put right": {
			[]option{minimum(2), settled, scaled(7)}, "replicas 2",
		},

		// From us to the autoscaler.
		"auto-scaling is switched on: the count is still ours and stays": {
			[]option{minimum(2), settled, autoScaling}, "Deployment unchanged, autoscaler applied",
		},
		"auto-scaling is switched on while the image changes: the count is still ours, and an omission would reset it to 1": {
			[]option{minimum(2), settled, autoScaling, newImage}, "replicas 2, autoscaler applied",
		},
		"the image changes before the autoscaler has written a count": {
			[]option{minimum(2), autoScaling, settled, newImage}, "replicas 2 if nobody wrote meanwhile",
		},
		"the autoscaler has written a count: it is not ours any more": {
			[]option{minimum(2), autoScaling, settled, scaled(5)}, "Deployment unchanged",
		},
		"the image changes after the autoscaler has written a count": {
			[]option{minimum(2), autoScaling, settled, scaled(5), newImage}, "replicas left alone",
		},
		"the class minimum rises: raising the count is the autoscaler's business": {
			[]option{minimum(2), autoScaling, settled, scaled(5), minimum(3)}, "Deployment unchanged, autoscaler applied",
		},
		"the class minimum rises while the count is still ours": {
			[]option{minimum(2), autoScaling, settled, minimum(3)}, "Deployment unchanged, autoscaler applied",
		},

		// From the autoscaler to us.
		"auto-scaling is switched off: we take the live count over, and the autoscaler goes": {
			[]option{minimum(2), autoScaling, settled, scaled(5), noAutoScaling},
			"replicas 5 if nobody wrote meanwhile, HorizontalPodAutoscaler deleted",
		},
		"the autoscaler is gone: the class minimum rules": {
			[]option{minimum(2), autoScaling, settled, scaled(5), noAutoScaling, planned}, "replicas 2",
		},
		"auto-scaling is switched off before the autoscaler has written a count": {
			[]option{minimum(2), autoScaling, settled, noAutoScaling}, "Deployment unchanged, HorizontalPodAutoscaler deleted",
		},

		// To zero and back.
		"idle is the end of the day only where the class scales to zero": {
			[]option{minimum(2), settled, idle}, "Deployment unchanged",
		},
		"idle in a class that scales to zero": {
			[]option{minimum(2), scaleToZero, settled, idle}, "replicas 0",
		},
		"an annotation that is not true does not count": {
			[]option{scaleToZero, settled, annotated(v1alpha1.AnnotationIdle, "yes")}, "Deployment unchanged",
		},
		"a new workspace that is idle starts asleep": {
			[]option{scaleToZero, idle}, "replicas 0",
		},
		"idle under an autoscaler that has scaled up": {
			[]option{scaleToZero, autoScaling, settled, scaled(4), idle}, "replicas 0 if nobody wrote meanwhile",
		},
		"asleep, nothing restores the minimum": {
			[]option{minimum(2), scaleToZero, autoScaling, settled, idle, settled}, "Deployment unchanged",
		},
		"asleep, and somebody scales it up": {
			[]option{scaleToZero, settled, idle, settled, scaled(1)}, "replicas 0",
		},
		"the wake goes to the minimum": {
			[]option{minimum(2), scaleToZero, settled, idle, settled, busy}, "replicas 2",
		},
		"the wake goes to one where the minimum is 0": {
			[]option{minimum(0), scaleToZero, settled, idle, settled, busy}, "replicas 1",
		},
		"the wake under an autoscaler, which does nothing at zero": {
			[]option{minimum(2), scaleToZero, autoScaling, settled, scaled(4), idle, settled, busy}, "replicas 2 if nobody wrote meanwhile",
		},
		"after the wake under an autoscaler the count is kept until it is the autoscaler's": {
			[]option{minimum(2), scaleToZero, autoScaling, settled, idle, settled, busy, settled}, "Deployment unchanged",
		},
		"the class stops scaling to zero while the workspace sleeps": {
			[]option{minimum(2), scaleToZero, settled, idle, settled, noScaleToZero}, "replicas 2",
		},
		"somebody scaled to zero under an autoscaler: it would stay there for ever": {
			[]option{minimum(2), autoScaling, settled, scaled(5), scaled(0)}, "replicas 2 if nobody wrote meanwhile",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := counts(given(row.options...)); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestReplicasNeverDropUnderAnAutoscaler goes through everything that makes the operator write, at a count that the autoscaler chose.
func TestReplicasNeverDropUnderAnAutoscaler(t *testing.T) {
	in := given(minimum(2), autoScaling, settled, ready(2), scaled(5), ready(5))
	for _, step := range []struct {
		name   string
		change option
	}{
		{"an annotation", annotated("note", "hello")},
		{"resources", resources("1", "1Gi")},
		{"an artifact", annotated(v1alpha1.AnnotationArtifactHash, "abc")},
		{"the ConfigMap is deleted", func(in *workspace.Input) { in.Children.ConfigMap = workspace.ConfigMap{} }},
		{"the autoscaler is deleted", func(in *workspace.Input) { in.Children.Autoscaler = workspace.Autoscaler{} }},
		{"another image", settings(func(s *workspace.Settings) { s.Image = "formahub/formspec-resource:1.5.0" })},
		{"a lower minimum", minimum(1)},
	} {
		in = then(in, step.change, planned)
		if got := ptr.Deref(in.Children.Deployment.Live.Spec.Replicas, 0); got != 5 {
			t.Fatalf("after %s: %d replicas, want 5", step.name, got)
		}
		in = then(in, settled)
		if got := ptr.Deref(in.Children.Deployment.Live.Spec.Replicas, 0); got != 5 {
			t.Fatalf("settled after %s: %d replicas, want 5", step.name, got)
		}
	}
}

// A write of a Deployment that turns out to be there after all must not undo what an autoscaler did to it.
func TestReplicasThatTheCacheDoesNotShow(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    bool // they are kept
	}{
		"a class without auto-scaling":      {[]option{minimum(2)}, false},
		"a class with auto-scaling":         {[]option{minimum(2), autoScaling}, true},
		"asleep":                            {[]option{minimum(2), autoScaling, scaleToZero, idle}, false},
		"auto-scaling has been turned off":  {[]option{minimum(2), autoScaling, settled, noAutoScaling, lost}, true},
		"fields are of another operator":    {[]option{minimum(2), autoScaling, settled, scaled(5), legacy}, true},
		"and there never was an autoscaler": {[]option{minimum(2), settled, legacy}, false},
	} {
		t.Run(name, func(t *testing.T) {
			plan := workspace.Make(given(row.options...))
			for _, write := range plan.Apply {
				if *write.Config.GetKind() == "Deployment" {
					if write.KeepReplicas != row.want {
						t.Errorf("live replicas are kept: %v, want %v", write.KeepReplicas, row.want)
					}
					return
				}
			}
			t.Error("the Deployment is not written")
		})
	}
}

// lost is a Deployment that the cache does not show.
func lost(in *workspace.Input) { in.Children.Deployment = workspace.Deployment{} }

func legacy(in *workspace.Input) { in.Children.Deployment.Legacy = true }
