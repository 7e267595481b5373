// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// An operator that was here before and wrote by updates, as typed clients do, is taken over: its fields become ours, what it set and we do
// not goes, and pods are replaced at most once.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{
		"children that carry our labels": {
			v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelWorkspace: "shop", "app": "formspec-resource",
		},
		"children that do not": {"app": "formspec-resource"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			// Without its class, our operator leaves the Workspace alone.
			shop := s.workspace("shop", &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
			shop.failing(v1alpha1.ReasonClusterClassNotFound)
			old := &predecessor{tenant: shop, labels: labels}
			old.installs()
			shop.rolledOut()
			before := shop.deployment()
			uids, stop := shop.childUIDs(), shop.watched()

			// when
			s.shortLivedClass(s.namespace, full)

			// then
			shop.ready()
			s.eventually("nothing is left of what the other one set", old.isTakenOver)
			shop.rolledOut()
			if err := shop.sameButReplicas(); err != nil {
				t.Error(err)
			}
			if err := stop().atLeast(3); err != nil {
				t.Error(err)
			}
			if now := shop.childUIDs(); !maps.Equal(now, uids) {
				t.Errorf("children are %v, were %v", now, uids)
			}
			if have := len(shop.replicaSets()); have > 2 {
				t.Errorf("there were %d revisions, want one rollout at most", have)
			}
			if service := shop.service(); service.Spec.ClusterIP != old.clusterIP {
				t.Errorf("the Service has another address")
			}
			if ours := shop.get().Finalizers; !slices.Equal(ours, []string{v1alpha1.WorkspaceFinalizer}) {
				t.Errorf("the finalizers are %q", ours)
			}

			// when it has come to rest
			start := s.now()
			shop.patch(`{"spec":{"owner":"another"}}`)
			shop.ready()

			// then
			if writes := s.sent(start, request.write, func(r request) bool { return r.resource() != "workspaces/status" }); len(writes) > 0 {
				t.Errorf("there is still something to write:%s", list(writes))
			}
			if before.UID != shop.deployment().UID {
				t.Error("the Deployment is another")
			}

			// when
			shop.delete(metav1.DeletePropagationBackground)

			// then
			shop.childrenGo()
			if secret := shop.child(kindOf("Secret")); secret == nil || secret.GetUID() != uids["Secret"] || secret.GetLabels()[v1alpha1.LabelRetained] != "true" {
				t.Errorf("the credentials are not retained: %v", secret)
			}
		})
	}
}

// predecessor is an operator that does a similar job and writes by Create and Update.
type predecessor struct {
	*tenant
	labels    map[string]string
	clusterIP string
}

func (p *predecessor) meta(name string) metav1.ObjectMeta {
	ws := p.get()
	return metav1.ObjectMeta{
		Namespace: p.namespace, Name: name, Labels: p.labels, Annotations: map[string]string{"example.com/hash": "1"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ws, schema.GroupVersionKind{Group: v1alpha1.GroupName, Version: "v1alpha1", Kind: "Workspace"})},
	}
}

// installs makes the children, and the finalizer.
func (p *predecessor) installs() {
	p.Helper()
	ctx, ns, name := p.Context(), p.namespace, names.Deployment(p.name)
	manager := metav1.CreateOptions{FieldManager: v1alpha1.LegacyManager}
	update := metav1.UpdateOptions{FieldManager: v1alpha1.LegacyManager}

	credentials := &corev1.Secret{ObjectMeta: p.meta(names.Credentials(p.name)), StringData: map[string]string{"OLD_DSN": "postgres://u:p@h/d"}}
	credentials.OwnerReferences = nil // as everybody must: it outlives the Workspace
	_, err := p.kube.CoreV1().Secrets(ns).Create(ctx, credentials, manager)
	p.must("create the Secret", err)

	configMap, err := p.kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: p.meta(names.ConfigMap(p.name)), Data: map[string]string{"workspace": p.name, "oldKey": "x"},
	}, manager)
	p.must("create the ConfigMap", err)
	configMap.Data["region"] = "elsewhere"
	_, err = p.kube.CoreV1().ConfigMaps(ns).Update(ctx, configMap, update)
	p.must("update the ConfigMap", err)

	service, err := p.kube.CoreV1().Services(ns).Create(ctx, &corev1.Service{ObjectMeta: p.meta(name), Spec: corev1.ServiceSpec{
		Selector: map[string]string{v1alpha1.LabelWorkspace: names.Label(p.name), "tier": "old"},
		Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}, {Name: "old", Port: 81, TargetPort: intstr.FromInt32(8081)}},
	}}, manager)
	p.must("create the Service", err)
	p.clusterIP = service.Spec.ClusterIP

	pod := map[string]string{v1alpha1.LabelWorkspace: names.Label(p.name), "old": "label"}
	deployment, err := p.kube.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: p.meta(name), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](3),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelWorkspace: names.Label(p.name)}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod, Annotations: map[string]string{"old": "annotation"}}, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			NodeSelector:    map[string]string{"kubernetes.io/os": "linux"},
			Containers: []corev1.Container{{
				Name: "formspec-resource", Image: "formahub/formspec-resource:1.4.2",
				Env:             []corev1.EnvVar{{Name: "WORKSPACE_ID", Value: p.name}, {Name: "OLD_VARIABLE", Value: "x"}},
				EnvFrom:         []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: names.Credentials(p.name)}}}},
				Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "old", ContainerPort: 8081}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				VolumeMounts:    []corev1.VolumeMount{{Name: "old", MountPath: "/old"}},
			}},
			Volumes: []corev1.Volume{{Name: "old", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}},
	}}, manager)
	p.must("create the Deployment", err)

	_, err = p.kube.PolicyV1().PodDisruptionBudgets(ns).Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: p.meta(name), Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: deployment.Spec.Selector,
	}}, manager)
	p.must("create the PodDisruptionBudget", err)
	_, err = p.kube.AutoscalingV2().HorizontalPodAutoscalers(ns).Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: p.meta(name), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
		MinReplicas:    ptr.To[int32](2), MaxReplicas: 3,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceMemory, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)},
		}}},
	}}, manager)
	p.must("create the HorizontalPodAutoscaler", err)

	p.eventually("the finalizer is written", func() error {
		ws := p.get()
		ws.Finalizers = []string{v1alpha1.WorkspaceFinalizer}
		_, err := p.formspec.FormspecV1alpha1().Workspaces(ns).Update(ctx, ws, update)
		if apierrors.IsConflict(err) {
			return err
		}
		p.must("update the Workspace", err)
		return nil
	})
}

// isTakenOver returns an error while anything is left of what the predecessor wrote.
func (p *predecessor) isTakenOver() error {
	for _, k := range childKinds {
		child := p.child(k)
		if child == nil {
			return fmt.Errorf("there is no %s", k.kind)
		}
		for _, entry := range child.GetManagedFields() {
			if entry.Manager == v1alpha1.LegacyManager {
				return fmt.Errorf("the %s has fields of manager %s: %s", k.kind, entry.Manager, entry.FieldsV1)
			}
		}
		if extra := child.GetLabels()["app"]; extra != "" {
			return fmt.Errorf("the %s has the label app=%s", k.kind, extra)
		}
	}
	if data := p.child(kindOf("ConfigMap")).Object["data"].(map[string]any); data["oldKey"] != nil || data["region"] != "" {
		return fmt.Errorf("the ConfigMap has %v", data)
	}
	if data := p.child(kindOf("Secret")).Object["data"]; data != nil {
		return fmt.Errorf("the Secret has %v, which no claim gives", data)
	}
	service := p.service()
	if len(service.Spec.Ports) != 1 || len(service.Spec.Selector) != 1 {
		return fmt.Errorf("the Service has %+v", service.Spec)
	}
	template := p.deployment().Spec.Template
	container := template.Spec.Containers[0]
	for _, env := range container.Env {
		if env.Name == "OLD_VARIABLE" {
			return fmt.Errorf("the container has %s", env.Name)
		}
	}
	if len(container.EnvFrom) > 0 || len(container.Ports) != 1 || len(template.Labels) != 2 || len(template.Annotations) > 0 || len(template.Spec.NodeSelector) > 0 {
		return fmt.Errorf("the pod template is %+v", template)
	}
	for _, volume := range template.Spec.Volumes {
		if volume.Name == "old" {
			return fmt.Errorf("the pod template has the volume %s", volume.Name)
		}
	}
	budget, err := p.kube.PolicyV1().PodDisruptionBudgets(p.namespace).Get(p.Context(), names.Deployment(p.name), metav1.GetOptions{})
	p.must("get the PodDisruptionBudget", err)
	if budget.Spec.MinAvailable != nil {
		return fmt.Errorf("the PodDisruptionBudget is %+v", budget.Spec)
	}
	autoscaler, err := p.kube.AutoscalingV2().HorizontalPodAutoscalers(p.namespace).Get(p.Context(), names.Deployment(p.name), metav1.GetOptions{})
	p.must("get the HorizontalPodAutoscaler", err)
	if len(autoscaler.Spec.Metrics) != 1 || autoscaler.Spec.Metrics[0].Resource.Name != corev1.ResourceCPU {
		return fmt.Errorf("the HorizontalPodAutoscaler is %+v", autoscaler.Spec)
	}
	return nil
}

func (w *tenant) service() *corev1.Service {
	w.Helper()
	service, err := w.kube.CoreV1().Services(w.namespace).Get(w.Context(), names.Deployment(w.name), metav1.GetOptions{})
	w.must("get the Service", err)
	return service
}

// childUIDs are the UIDs of all children by kind.
func (w *tenant) childUIDs() map[string]types.UID {
	w.Helper()
	uids := map[string]types.UID{}
	for _, k := range childKinds {
		if child := w.child(k); child != nil {
			uids[k.kind] = child.GetUID()
		}
	}
	return uids
}

// Whoever wrote it, what does not belong to the Workspace is not taken over.
func TestAStrangersFieldsAreNotTakenOver(t *testing.T) {
	t.Parallel()
	s := given(t)
	stranger, err := s.kube.CoreV1().ConfigMaps(s.namespace).Create(s.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: names.ConfigMap("shop"), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
	}, metav1.CreateOptions{FieldManager: v1alpha1.LegacyManager})
	s.must("create the ConfigMap", err)
	shop := s.workspace("shop", s.class(full))
	shop.failing(v1alpha1.ReasonNameConflict, stranger.Name)
	now, err := s.kube.CoreV1().ConfigMaps(s.namespace).Get(s.Context(), stranger.Name, metav1.GetOptions{})
	s.must("get the ConfigMap", err)
	if now.ResourceVersion != stranger.ResourceVersion {
		t.Error("the stranger's ConfigMap was written")
	}
}

// Somebody takes our label off what an autoscaler has scaled up, and our caches lose sight of it.
func TestAScaledDeploymentThatLosesItsLabel(t *testing.T) {
	t.Parallel()
	s := given(t)
	shop := s.workspace("shop", s.class(full)).ready()
	s.kubectl("scale", "deployment/"+names.Deployment(shop.name), "--replicas=5")
	shop.rolledOut()
	before, stop := shop.deployment(), shop.watched()

	// when
	s.kubectl("label", "deployment", names.Deployment(shop.name), v1alpha1.LabelManagedBy+"-")

	// then
	s.eventually("the label is back", func() error {
		if labels := shop.deployment().Labels; labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
			return fmt.Errorf("the labels are %v", labels)
		}
		return nil
	})
	shop.ready()
	if err := stop().atLeast(5); err != nil {
		t.Error(err)
	}
	if now := shop.deployment(); now.UID != before.UID || len(shop.replicaSets()) != 1 {
		t.Error("the Deployment is another, or was rolled out")
	}
}
