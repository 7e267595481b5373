// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// child is the child of one type that a plan writes, as the API server would read it. Nil: it writes none.
func child[T any](in workspace.Input, kind string) *T {
	for _, write := range workspace.Make(in).Apply {
		if *write.Config.GetKind() == kind {
			return decode[*T](write.Config)
		}
	}
	return nil
}

func template(in workspace.Input) corev1.PodTemplateSpec {
	return child[appsv1.Deployment](in, "Deployment").Spec.Template
}

func TestResources(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    string // requests and limits
	}{
		"what is stated is request and limit":                     {[]option{resources("2", "4Gi")}, "cpu 2/2 memory 4Gi/4Gi"},
		"what is stated is request and limit in an economy class": {[]option{scaleToZero, resources("2", "4Gi")}, "cpu 2/2 memory 4Gi/4Gi"},
		"nothing stated: no CPU limit":                            {nil, "cpu 250m/- memory 256Mi/512Mi"},
		"nothing stated in an economy class":                      {[]option{scaleToZero}, "cpu 50m/- memory 64Mi/256Mi"},
		"what is finer than the API server stores":                {[]option{resources("100500u", "0.0001")}, "cpu 101m/101m memory 1m/1m"},
		"CPU alone is stated":                                     {[]option{resources("1500m", "")}, "cpu 1500m/1500m memory 256Mi/512Mi"},
		"memory alone is stated":                                  {[]option{resources("", "1Gi")}, "cpu 250m/- memory 1Gi/1Gi"},
		"memory alone is stated in an economy class":              {[]option{scaleToZero, resources("", "1Gi")}, "cpu 50m/- memory 1Gi/1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			r := template(given(row.options...)).Spec.Containers[0].Resources
			show := func(name corev1.ResourceName) string {
				amount := func(list corev1.ResourceList) string {
					if q, stated := list[name]; stated {
						return q.String()
					}
					return "-"
				}
				return fmt.Sprintf("%s %s/%s", name, amount(r.Requests), amount(r.Limits))
			}
			if got := show(corev1.ResourceCPU) + " " + show(corev1.ResourceMemory); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestReplicasAndTheirGuards(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    string
	}{
		"an empty class runs one replica":                 {nil, "1 replica(s), budget false, autoscaler none"},
		"a minimum of 0 counts as 1":                      {[]option{minimum(0), scaleToZero}, "1 replica(s), budget false, autoscaler none"},
		"a minimum of 2 gets a budget":                    {[]option{minimum(2)}, "2 replica(s), budget true, autoscaler none"},
		"an autoscaler without a minimum":                 {[]option{autoScaling}, "1 replica(s), budget false, autoscaler 1..5"},
		"an autoscaler goes up to five times the minimum": {[]option{minimum(2), autoScaling}, "2 replica(s), budget true, autoscaler 2..10"},
		"an autoscaler goes up to what the class says": {
			[]option{scaling(v1alpha1.ClusterClassScaling{MinReplicas: 2, MaxReplicas: ptr.To[int32](3)}), autoScaling},
			"2 replica(s), budget true, autoscaler 2..3",
		},
		"a maximum below the minimum counts as the minimum": {
			[]option{scaling(v1alpha1.ClusterClassScaling{MinReplicas: 4, MaxReplicas: ptr.To[int32](3)}), autoScaling},
			"4 replica(s), budget true, autoscaler 4..4",
		},
		"an autoscaler of a class that scales to zero never goes below 1": {
			[]option{minimum(0), scaleToZero, autoScaling}, "1 replica(s), budget false, autoscaler 1..5",
		},
		"asleep, the autoscaler stays as it is": {
			[]option{minimum(2), scaleToZero, autoScaling, idle}, "0 replica(s), budget true, autoscaler 2..10",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(row.options...)
			autoscaler := "none"
			if hpa := child[autoscalingv2.HorizontalPodAutoscaler](in, "HorizontalPodAutoscaler"); hpa != nil {
				autoscaler = fmt.Sprintf("%d..%d", *hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas)
			}
			got := fmt.Sprintf("%d replica(s), budget %v, autoscaler %s", *child[appsv1.Deployment](in, "Deployment").Spec.Replicas,
				child[policyv1.PodDisruptionBudget](in, "PodDisruptionBudget") != nil, autoscaler)
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestPlacement(t *testing.T) {
	nodeType := func(name string) option {
		return class(func(c *v1alpha1.ClusterClass) { c.Spec.NodeType = name })
	}
	where := func(environment v1alpha1.Environment, region string) option {
		return spec(func(s *v1alpha1.WorkspaceSpec) { s.Environment, s.Region = environment, region })
	}
	for name, row := range map[string]struct {
		options []option
		want    string // hard node labels, then the preferred capacity
	}{
		"nothing is named: any node":              {nil, "low"},
		"dedicated nodes are the enterprise tier": {[]option{nodeType("dedicated")}, "formspec.dev/tier=enterprise low"},
		"shared nodes":                            {[]option{nodeType("shared")}, "formspec.dev/tier=shared low"},
		"dev nodes":                               {[]option{nodeType("dev")}, "formspec.dev/tier=dev low"},
		"the environment is hard":                 {[]option{where("staging", "")}, "formspec.dev/environment=staging low"},
		"the region is hard":                      {[]option{where("", "jakarta")}, "formspec.dev/region=jakarta low"},
		"the region of the class alone is not":    {[]option{class(func(c *v1alpha1.ClusterClass) { c.Spec.Region = "jakarta" })}, "low"},
		"everything is named":                     {[]option{nodeType("dev"), where("dev", "jakarta")}, "formspec.dev/environment=dev formspec.dev/region=jakarta formspec.dev/tier=dev low"},
		"less than one CPU prefers low capacity":  {[]option{resources("999m", "")}, "low"},
		"one CPU prefers medium capacity":         {[]option{resources("1000m", "")}, "medium"},
		"almost four CPUs prefer medium capacity": {[]option{resources("3999m", "")}, "medium"},
		"four CPUs prefer high capacity":          {[]option{resources("4", "")}, "high"},
		"memory has no say in the capacity":       {[]option{resources("", "64Gi")}, "low"},
		"an economy class prefers low capacity":   {[]option{scaleToZero}, "low"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := template(given(row.options...)).Spec
			var got []string
			for _, label := range slices.Sorted(maps.Keys(pod.NodeSelector)) {
				got = append(got, label+"="+pod.NodeSelector[label])
			}
			if pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
				got = append(got, "something required")
			}
			for _, preferred := range pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				for _, term := range preferred.Preference.MatchExpressions {
					if term.Key == v1alpha1.LabelCapacity && term.Operator == corev1.NodeSelectorOpIn {
						got = append(got, term.Values...)
					}
				}
			}
			if got := strings.Join(got, " "); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	availability := func(name string) option {
		return class(func(c *v1alpha1.ClusterClass) { c.Spec.Availability = name })
	}
	policy := func(p v1alpha1.SpreadPolicy) option {
		return class(func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.Spread = p })
	}
	const soft, hard = "ScheduleAnyway", "DoNotSchedule"
	for name, row := range map[string]struct {
		options []option
		want    string // the anti-affinity, then each constraint
	}{
		"one replica is spread too, for the day it has company": {nil, "preferred hostname:" + soft},
		"single-az keeps to nodes":                              {[]option{availability("single-az")}, "preferred hostname:" + soft},
		"multi-az spreads over zones":                           {[]option{availability("multi-az")}, "preferred hostname:" + soft + " zone:" + soft},
		"cross-az-failover spreads over zones":                  {[]option{features("cross-az-failover")}, "preferred hostname:" + soft + " zone:" + soft},
		"Preferred is the default":                              {[]option{policy("Preferred")}, "preferred hostname:" + soft},
		"Required is hard":                                      {[]option{policy("Required")}, "required hostname:" + hard},
		"Required is hard for zones too":                        {[]option{policy("Required"), availability("multi-az")}, "required hostname:" + hard + " zone:" + hard},
	} {
		t.Run(name, func(t *testing.T) {
			pod := template(given(row.options...)).Spec
			var got []string
			for _, term := range pod.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				if term.Weight == 100 && term.PodAffinityTerm.TopologyKey == "kubernetes.io/hostname" {
					got = append(got, "preferred")
				}
			}
			for _, term := range pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
				if term.TopologyKey == "kubernetes.io/hostname" && slices.Equal(term.MatchLabelKeys, []string{"pod-template-hash"}) {
					got = append(got, "required")
				}
			}
			for _, c := range pod.TopologySpreadConstraints {
				_, key, _ := strings.Cut(c.TopologyKey, "/")
				got = append(got, fmt.Sprintf("%s:%s", key, c.WhenUnsatisfiable))
				if c.MaxSkew != 1 || !slices.Equal(c.MatchLabelKeys, []string{"pod-template-hash"}) || c.LabelSelector.MatchLabels[v1alpha1.LabelWorkspace] != "shop" {
					t.Errorf("constraint %+v does not compare the pods of one revision", c)
				}
			}
			if got := strings.Join(got, " "); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestWhatRollsPods(t *testing.T) {
	for name, row := range map[string]struct {
		change option
		rolls  bool
	}{
		"the operator's image":    {settings(func(s *workspace.Settings) { s.Image = "formahub/formspec-resource:1.5.0" }), true},
		"the class's image":       {class(func(c *v1alpha1.ClusterClass) { c.Spec.ResourceImage = "formahub/formspec-resource:1.5.0-rc1" }), true},
		"resources":               {resources("1", "1Gi"), true},
		"the control plane's URL": {settings(func(s *workspace.Settings) { s.ControlURL = "https://control.example.com" }), true},
		"the environment":         {spec(func(s *v1alpha1.WorkspaceSpec) { s.Environment = "prod" }), true},
		"the region":              {spec(func(s *v1alpha1.WorkspaceSpec) { s.Region = "jakarta" }), true},
		"the node type":           {class(func(c *v1alpha1.ClusterClass) { c.Spec.NodeType = "dev" }), true},
		"the artifact's binary":   {annotated(v1alpha1.AnnotationArtifactHash, "abc"), true},
		"the number of replicas":  {minimum(7), false},
		"an autoscaler":           {autoScaling, false},
		"what only the ConfigMap says": {class(func(c *v1alpha1.ClusterClass) {
			c.Spec.SLA, c.Spec.Storage, c.Spec.Features = "99", "nvme", []string{"x"}
		}), false},
		"the region of the class":         {class(func(c *v1alpha1.ClusterClass) { c.Spec.Region = "jakarta" }), false},
		"the price":                       {class(func(c *v1alpha1.ClusterClass) { c.Spec.Pricing.BaseMonthly = 5 }), false},
		"another class with equal values": {class(func(c *v1alpha1.ClusterClass) { c.Name = "other" }), false},
		"the owner":                       {spec(func(s *v1alpha1.WorkspaceSpec) { s.Owner = "somebody" }), false},
		"falling asleep":                  {idle, false},
		"labels of the workspace":         {object(func(ws *v1alpha1.Workspace) { ws.Labels = map[string]string{"team": "payments"} }), false},
		"other annotations":               {annotated("note", "hello"), false},
		"the cluster's name":              {settings(func(s *workspace.Settings) { s.ClusterName = "jkt-2" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := asJSON(template(given())), asJSON(template(given(row.change)))
			if rolls := before != after; rolls != row.rolls {
				t.Errorf("pods roll: %v, want %v\n%s\n%s", rolls, row.rolls, before, after)
			}
		})
	}
}

func TestEnvironmentVariables(t *testing.T) {
	values := func(in workspace.Input) string {
		var all []string
		for _, v := range template(in).Spec.Containers[0].Env {
			all = append(all, v.Name+"="+v.Value)
		}
		return strings.Join(all, " ")
	}
	const always = "FORMSPEC_DATA_DIR=/var/lib/formspec TMPDIR=/tmp WORKSPACE_ID="
	if got, want := values(given()), always+"shop"; got != want {
		t.Errorf("without a control plane: got %s, want %s", got, want)
	}
	in := given(settings(func(s *workspace.Settings) { s.ControlURL = "https://c" }), object(func(ws *v1alpha1.Workspace) { ws.Name = "a.b" }))
	if got, want := values(in), "CONTROL_CLUSTER_URL=https://c "+always+"a.b"; got != want {
		t.Errorf("with a control plane, and a name that is no label: got %s, want %s", got, want)
	}
}

func TestTheConfigMapTellsTheRegion(t *testing.T) {
	label := class(func(c *v1alpha1.ClusterClass) { c.Labels = map[string]string{v1alpha1.LabelRegion: "by-label"} })
	classSpec := class(func(c *v1alpha1.ClusterClass) { c.Spec.Region = "by-class" })
	own := spec(func(s *v1alpha1.WorkspaceSpec) { s.Region = "by-class" })
	for name, row := range map[string]struct {
		options []option
		want    string
	}{
		"nobody names one":                   {nil, ""},
		"the workspace names one":            {[]option{own}, "by-class"},
		"the class names one":                {[]option{classSpec}, "by-class"},
		"the class has a label":              {[]option{label}, "by-label"},
		"the class's spec wins over a label": {[]option{label, classSpec}, "by-class"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := child[corev1.ConfigMap](given(row.options...), "ConfigMap").Data["region"]; got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
