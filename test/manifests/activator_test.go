// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"maps"
	"path/filepath"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

const activatorFile = "50-activator.yaml"

// object returns the one object of a type, and of a name, that a file has.
func object[T interface {
	runtime.Object
	metav1.Object
}](t *testing.T, file, name string,
) T {
	t.Helper()
	for _, o := range read(t, filepath.Join(dir, file)) {
		if found, ok := o.(T); ok && found.GetName() == name {
			return found
		}
	}
	var none T
	t.Fatalf("%s has no %T %s", file, none, name)
	return none
}

// The activator stands in the way of everybody's traffic, so it can do little else.
func TestActivatorReadsAndRenewsOnly(t *testing.T) {
	want := map[string][]rbacv1.PolicyRule{
		"ClusterRole formspec-activator": {
			{APIGroups: []string{"formspec.dev"}, Resources: []string{"workspaces", "clusterclasses"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: []string{"get", "list", "watch"}},
		},
		"Role formspec-activator": {
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch", "create", "patch"}},
		},
	}
	if got := roles(t, activatorFile); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestActivatorIsWhereTheOperatorLooks(t *testing.T) {
	namespace := object[*corev1.Namespace](t, "00-namespace.yaml", v1alpha1.ActivatorNamespace)
	if namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("namespace labels %v", namespace.Labels)
	}
	service := object[*corev1.Service](t, activatorFile, v1alpha1.ActivatorService)
	deployment := object[*appsv1.Deployment](t, activatorFile, v1alpha1.ActivatorService)
	want := map[string]string{"app.kubernetes.io/name": v1alpha1.ActivatorService}
	if service.Namespace != v1alpha1.ActivatorNamespace || !maps.Equal(service.Spec.Selector, want) || !maps.Equal(deployment.Spec.Template.Labels, want) {
		t.Errorf("Service in %s selects %v, pods have %v", service.Namespace, service.Spec.Selector, deployment.Spec.Template.Labels)
	}
	port := service.Spec.Ports[0]
	if port.Name != v1alpha1.ActivatorPortName || port.TargetPort != intstr.FromString(v1alpha1.ActivatorPortName) {
		t.Errorf("port %+v", port)
	}
	if got := deployment.Spec.Template.Spec.Containers[0].Ports[0]; got.Name != v1alpha1.ActivatorPortName || got.ContainerPort != 8080 {
		t.Errorf("container port %+v", got)
	}
}

// The autoscaler owns the count. Were one in the Deployment, each "kubectl apply" would cut it down.
func TestActivatorReplicas(t *testing.T) {
	for _, o := range read(t, filepath.Join(dir, activatorFile)) {
		if deployment, ok := o.(*appsv1.Deployment); ok && deployment.Spec.Replicas != nil {
			t.Errorf("the Deployment has %d replicas", *deployment.Spec.Replicas)
		}
	}
	autoscaler := object[*autoscalingv2.HorizontalPodAutoscaler](t, activatorFile, v1alpha1.ActivatorService)
	if autoscaler.Spec.MinReplicas == nil || *autoscaler.Spec.MinReplicas < 2 || autoscaler.Spec.ScaleTargetRef.Name != v1alpha1.ActivatorService {
		t.Errorf("the autoscaler: %+v", autoscaler.Spec)
	}
	budget := object[*policyv1.PodDisruptionBudget](t, activatorFile, v1alpha1.ActivatorService)
	if budget.Spec.MaxUnavailable == nil || *budget.Spec.MaxUnavailable != intstr.FromInt32(1) {
		t.Errorf("the budget: %+v", budget.Spec)
	}
}

func TestActivatorPod(t *testing.T) {
	pod := object[*appsv1.Deployment](t, activatorFile, v1alpha1.ActivatorService).Spec.Template.Spec
	container := pod.Containers[0]
	operator := object[*appsv1.Deployment](t, "40-deployment.yaml", "formspec-operator").Spec.Template.Spec.Containers[0]
	if container.Image != operator.Image {
		t.Errorf("image %s, the operator's is %s", container.Image, operator.Image)
	}
	// The defaults of --drain-delay and --shutdown-timeout are 10 s and 3 min.
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || *grace <= 10+3*60 {
		t.Error("it is killed before it has drained")
	}
	limit := container.Resources.Limits
	if _, limited := limit[corev1.ResourceCPU]; limited || container.Resources.Requests.Cpu().IsZero() {
		t.Errorf("CPU: %v", container.Resources) // the autoscaler needs the request
	}
	var goLimit string
	for _, variable := range container.Env {
		if variable.Name == "GOMEMLIMIT" {
			goLimit = variable.Value
		}
	}
	soft, err := resource.ParseQuantity(goLimit[:max(0, len(goLimit)-1)]) // Go writes MiB, Kubernetes Mi
	if err != nil || soft.Value() > limit.Memory().Value()*8/10 || soft.Value() < limit.Memory().Value()/2 {
		t.Errorf("GOMEMLIMIT %s of %s", goLimit, limit.Memory())
	}
}
