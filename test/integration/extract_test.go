// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/yaml"
)

// render runs the command "render" on YAML documents or JSON. What it has printed for the same input is remembered.
func (env *environment) render(input string) (string, error) {
	if out, ok := env.renders.Load(input); ok {
		return out.(string), nil
	}
	out, err := env.runRender(input)
	if err == nil {
		env.renders.Store(input, out)
	}
	return out, err
}

func (env *environment) runRender(input string) (string, error) {
	cmd := exec.Command(env.path("formspec-operator"), "render", "-f", "-")
	cmd.Stdin = strings.NewReader(input)
	return output(cmd)
}

// decode reads YAML documents.
func (s *scenario) decode(documents string) []map[string]any {
	s.Helper()
	var objects []map[string]any
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(documents)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		s.must("read YAML", err)
		var object map[string]any
		s.must("read YAML", yaml.Unmarshal(document, &object))
		if object != nil {
			objects = append(objects, object)
		}
	}
}

// extract returns what our field manager has applied of an object.
func extract(object *unstructured.Unstructured) (map[string]any, error) {
	switch object.GetKind() {
	case "Secret":
		return extractTyped(object, &corev1.Secret{}, corev1ac.ExtractSecret)
	case "ConfigMap":
		return extractTyped(object, &corev1.ConfigMap{}, corev1ac.ExtractConfigMap)
	case "Service":
		return extractTyped(object, &corev1.Service{}, corev1ac.ExtractService)
	case "Deployment":
		return extractTyped(object, &appsv1.Deployment{}, appsv1ac.ExtractDeployment)
	case "PodDisruptionBudget":
		return extractTyped(object, &policyv1.PodDisruptionBudget{}, policyv1ac.ExtractPodDisruptionBudget)
	case "HorizontalPodAutoscaler":
		return extractTyped(object, &autoscalingv2.HorizontalPodAutoscaler{}, autoscalingv2ac.ExtractHorizontalPodAutoscaler)
	default:
		return nil, fmt.Errorf("no way to extract a %s", object.GetKind())
	}
}

func extractTyped[T, C any](object *unstructured.Unstructured, typed T, extract func(T, string) (C, error)) (map[string]any, error) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, err
	}
	config, err := extract(typed, manager)
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(config)
}
