// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// A map that is walked in its random order, or the order of a cache, which has none, would show within a few renderings, and would roll pods
// without end. FR-12.
func TestRenderingAThousandTimesIsByteEqual(t *testing.T) {
	claims := bound(binding("pg-a"), binding("cache", readOnly), binding("files", denied(v1alpha1.ReasonExpired)), binding("search"),
		binding("pg-a", denied(v1alpha1.ReasonSuperseded), func(b *workspace.Binding) { b.Claim.Name = "older" }),
		binding("pg.a", func(b *workspace.Binding) { b.Claim.Name = "the same variables" }))
	const variables = 3 + 3*7 // of our own, and of three claims
	inputs := map[string]workspace.Input{
		"three claims": given(minimum(2), autoScaling, claims),
		"pods that do not run": given(minimum(2), claims, settled,
			pods(waits("RunContainerError", "first"), unschedulable("full"), waits("RunContainerError", "third"), all(ended(2, 1, "Error"), runs))),
		"datastores that are not bound": given(lists("files", "", v1alpha1.DriverFS), lists("gone", "", ""), lists("pg.a", "", v1alpha1.DriverPostgres), claims),
	}
	for _, name := range []string{"bank-mandiri", "economy"} { // every kind of child
		inputs["the sample "+name] = sample(t, name)
	}
	if env := template(inputs["three claims"]).Spec.Containers[0].Env; len(env) != variables {
		t.Fatalf("three claims give %d variables, want %d", len(env), variables)
	}
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			first := asJSON(workspace.Make(in))
			for range 999 {
				in.Bindings, in.Pods = shuffled(random, in.Bindings), shuffled(random, in.Pods)
				if again := asJSON(workspace.Make(in)); first != again {
					t.Fatalf("the same input rendered differently:\n%s", diff.Diff(fields(first), fields(again)))
				}
			}
		})
	}
}

func shuffled[T any](random *rand.Rand, list []T) []T {
	list = slices.Clone(list)
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func TestThePlanOfASteadyStateIsEmpty(t *testing.T) {
	for name, options := range map[string][]option{
		"the smallest class":                     {settled},
		"several replicas and an autoscaler":     {minimum(2), autoScaling, settled, ready(2)},
		"an autoscaler that has scaled up":       {minimum(2), autoScaling, settled, ready(2), scaled(5), ready(5)},
		"required spread over zones":             {scaling(v1alpha1.ClusterClassScaling{MinReplicas: 3, Spread: v1alpha1.SpreadRequired}), settled},
		"asleep":                                 {scaleToZero, idle, settled},
		"asleep under an autoscaler":             {scaleToZero, autoScaling, settled, ready(1), idle, settled},
		"an artifact hash":                       {annotated(v1alpha1.AnnotationArtifactHash, "abc"), settled},
		"quantities that are not in normal form": {resources("1000m", "1024Mi"), settled},
		"quantities with a decimal point":        {resources("0.5", "1.5Gi"), settled},
		"an environment and a region":            {spec(func(s *v1alpha1.WorkspaceSpec) { s.Environment, s.Region = "prod", "jakarta" }), settled},
		"a rollout under way":                    {minimum(2), settled, rollout(2, 1, 1), settled},
		"an obstacle":                            {settled, noClass, settled},
		"another cluster":                        {settled, spec(func(s *v1alpha1.WorkspaceSpec) { s.Cluster = "elsewhere" }), settled},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(append(options, at(time.Hour))...)
			if left := quiet(in, workspace.Make(in)); left != "" {
				t.Errorf("an hour later the plan still wants to %s", left)
			}
		})
	}
	for _, name := range samples {
		t.Run("the sample "+name, func(t *testing.T) {
			in := then(sample(t, name), settled, at(time.Hour))
			if left := quiet(in, workspace.Make(in)); left != "" {
				t.Errorf("an hour later the plan still wants to %s", left)
			}
		})
	}
}

// TestOnlyWhatDiffersIsWritten starts from the steady state of a workspace with every child.
func TestOnlyWhatDiffersIsWritten(t *testing.T) {
	for name, row := range map[string]struct {
		change option
		want   []string // the writes, each with its precondition
	}{
		"a stranger took over a field of the Service": {
			change: func(in *workspace.Input) { in.Children.Service.Ours.Spec.Selector = nil },
			want:   []string{"Service if uid-of-Service"},
		},
		"a field of ours that is no longer wanted": {
			change: func(in *workspace.Input) { in.Children.ConfigMap.Ours.Data["password"] = "old" },
			want:   []string{"ConfigMap if uid-of-ConfigMap"},
		},
		"a label of ours that somebody removed": {
			change: func(in *workspace.Input) { delete(in.Children.DisruptionBudget.Ours.Labels, v1alpha1.LabelManagedBy) },
			want:   []string{"PodDisruptionBudget if uid-of-PodDisruptionBudget"},
		},
		"the maximum of the class changed": {
			change: scaling(v1alpha1.ClusterClassScaling{MinReplicas: 2, MaxReplicas: ptr.To[int32](6)}),
			want:   []string{"HorizontalPodAutoscaler if uid-of-HorizontalPodAutoscaler"},
		},
		"the features of the class changed: running pods see it without a restart": {
			change: features(v1alpha1.FeatureAutoScaling, "ddos-protection"),
			want:   []string{"ConfigMap if uid-of-ConfigMap"},
		},
		"a restart that a user asked for is respected": {
			change: deployment(func(d *appsv1.Deployment) {
				d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-07-10T10:00:00Z"}
			}),
		},
		"labels of strangers are left alone": {
			change: deployment(func(d *appsv1.Deployment) { d.Labels["team"] = "payments" }),
		},
		"the control plane's URL changed": {
			change: settings(func(s *workspace.Settings) { s.ControlURL = "https://new.example.com" }),
			want:   []string{"Deployment if uid-of-Deployment and 71"},
		},
		"the Deployment vanished": {
			change: func(in *workspace.Input) { in.Children.Deployment = workspace.Deployment{} },
			want:   []string{"Deployment if the name is free"},
		},
		"everything vanished": {
			change: func(in *workspace.Input) { in.Children = workspace.Children{} },
			want: []string{
				"Secret if the name is free", "ConfigMap if the name is free", "Service if the name is free",
				"Deployment if the name is free", "PodDisruptionBudget if the name is free", "HorizontalPodAutoscaler if the name is free",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(minimum(2), autoScaling, settled, ready(2), settled, row.change)
			if got := writes(workspace.Make(in)); !slices.Equal(got, row.want) {
				t.Errorf("writes\n got %q\nwant %q", got, row.want)
			}
		})
	}
}

// TestNothingIsChangedInPlace: what is given comes from shared caches.
func TestNothingIsChangedInPlace(t *testing.T) {
	for name, in := range map[string]workspace.Input{
		"a new workspace":    given(minimum(2), autoScaling),
		"a changed one":      given(minimum(2), autoScaling, settled, ready(2), resources("2", "1Gi"), annotated(v1alpha1.AnnotationArtifactHash, "abc")),
		"one that is denied": given(settled, ready(1), noClass),
		"one that moves":     given(settled, ready(1), spec(func(s *v1alpha1.WorkspaceSpec) { s.Cluster = "elsewhere" })),
		"one that goes":      given(settled, ready(1), deleted),
	} {
		t.Run(name, func(t *testing.T) {
			before := asJSON(in)
			workspace.Make(in)
			if after := asJSON(in); before != after {
				t.Errorf("the plan changed its input:\n%s", diff.Diff(fields(before), fields(after)))
			}
		})
	}
}
