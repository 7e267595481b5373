// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// configMap asks for some data.
func configMap(data map[string]string) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap("shop", "bank").WithLabels(map[string]string{"a": "b"}).WithData(data)
}

// pod asks for a Deployment with one container and the given environment.
func pod(grace int64, env ...string) *appsv1ac.DeploymentApplyConfiguration {
	container := corev1ac.Container().WithName("app")
	for _, name := range env {
		container.WithEnv(corev1ac.EnvVar().WithName(name).WithValue(name))
	}
	return appsv1ac.Deployment("shop", "bank").WithSpec(appsv1ac.DeploymentSpec().WithReplicas(2).WithTemplate(
		corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithTerminationGracePeriodSeconds(grace).WithContainers(container))))
}

func TestFingerprint(t *testing.T) {
	same := map[string][2]reconcile.Config{
		"equal data": {configMap(map[string]string{"x": "1", "y": "2"}), configMap(map[string]string{"y": "2", "x": "1"})},
		"the preconditions of a write": {
			configMap(nil), configMap(nil).WithUID("uid").WithResourceVersion("7"),
		},
		"quantities that are written differently": {
			appsv1ac.Deployment("a", "b").WithSpec(appsv1ac.DeploymentSpec().WithTemplate(corev1ac.PodTemplateSpec().WithSpec(
				corev1ac.PodSpec().WithOverhead(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m")})))),
			appsv1ac.Deployment("a", "b").WithSpec(appsv1ac.DeploymentSpec().WithTemplate(corev1ac.PodTemplateSpec().WithSpec(
				corev1ac.PodSpec().WithOverhead(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")})))),
		},
	}
	for name, pair := range same {
		if a, b := reconcile.Fingerprint(pair[0]), reconcile.Fingerprint(pair[1]); a != b || a == "" {
			t.Errorf("%s: fingerprints differ, or are empty:\n%s\n%s", name, a, b)
		}
	}
	different := map[string][2]reconcile.Config{
		"a value":             {configMap(map[string]string{"x": "1"}), configMap(map[string]string{"x": "2"})},
		"one key more":        {configMap(nil), configMap(map[string]string{"x": ""})},
		"the name":            {configMap(nil), corev1ac.ConfigMap("other", "bank").WithLabels(map[string]string{"a": "b"})},
		"a label":             {configMap(nil), corev1ac.ConfigMap("shop", "bank").WithLabels(map[string]string{"a": "c"})},
		"the order of a list": {pod(30, "A", "B"), pod(30, "B", "A")},
	}
	for name, pair := range different {
		if a, b := reconcile.Fingerprint(pair[0]), reconcile.Fingerprint(pair[1]); a == b {
			t.Errorf("%s: fingerprints are equal: %s", name, a)
		}
	}
}

func TestDifferences(t *testing.T) {
	for name, row := range map[string]struct {
		asked, got reconcile.Config
		want       []string
	}{
		"none":                      {pod(30, "A"), pod(30, "A"), nil},
		"not the preconditions":     {configMap(nil), configMap(nil).WithUID("uid").WithResourceVersion("7"), nil},
		"a value":                   {pod(30), pod(60), []string{"spec.template.spec.terminationGracePeriodSeconds"}},
		"a value in a list":         {pod(30, "A", "B"), pod(30, "A", "C"), []string{"spec.template.spec.containers[0].env[1].name", "spec.template.spec.containers[0].env[1].value"}},
		"a list of another length":  {pod(30, "A", "B"), pod(30, "A"), []string{"spec.template.spec.containers[0].env"}},
		"what is gone":              {configMap(map[string]string{"x": "1", "y": "2"}), configMap(map[string]string{"y": "2"}), []string{"data.x"}},
		"what is new":               {configMap(map[string]string{"y": "2"}), configMap(map[string]string{"x": "1", "y": "2"}), []string{"data.x"}},
		"all of a map":              {configMap(map[string]string{"x": "1"}), configMap(nil), []string{"data"}},
		"several, sorted":           {configMap(map[string]string{"b": "1", "a": "1"}).WithImmutable(true), configMap(map[string]string{"b": "2", "a": "2"}), []string{"data.a", "data.b", "immutable"}},
		"everything, as if deleted": {configMap(nil), &corev1ac.ConfigMapApplyConfiguration{}, []string{"apiVersion", "kind", "metadata"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := reconcile.Differences(row.asked, row.got); !slices.Equal(got, row.want) {
				t.Errorf("differences %q, want %q", got, row.want)
			}
		})
	}
}
