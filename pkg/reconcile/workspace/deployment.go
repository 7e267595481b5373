// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// revisionHistory is how many old ReplicaSets stay, for people who look back. Rolling back is the spec's business.
const revisionHistory = 3

// deployment is the Deployment that the Workspace should have. Source: contract §2.
func (in Input) deployment() *appsv1ac.DeploymentApplyConfiguration {
	spec := appsv1ac.DeploymentSpec().
		WithSelector(in.selector()).
		WithRevisionHistoryLimit(revisionHistory).
		WithStrategy(appsv1ac.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
			WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
				WithMaxUnavailable(intstr.FromInt32(0)).WithMaxSurge(intstr.FromInt32(1)))).
		WithTemplate(in.podTemplate())
	spec.Replicas = in.replicas()
	return appsv1ac.Deployment(names.Deployment(in.Workspace.Name), in.Workspace.Namespace).
		WithLabels(in.labels()).WithOwnerReferences(in.owner()).
		WithAnnotations(in.deploymentAnnotations()).WithSpec(spec)
}

func (in Input) deploymentAnnotations() map[string]string {
	annotations := map[string]string{v1alpha1.AnnotationClusterClass: in.Class.Name}
	if since := in.podsRefusedSince(); !since.IsZero() && in.Now.Sub(since) >= refusedRetry {
		annotations[v1alpha1.AnnotationRetry] = in.Now.Truncate(refusedRetry).UTC().Format(time.RFC3339)
	}
	if decided, _ := in.decide(); decided.annotation() != "" {
		annotations[v1alpha1.AnnotationSleep] = decided.annotation()
	}
	return annotations
}

// refusedRetry is how often refused pods are tried again. Kubernetes itself waits up to a quarter of an hour, long after a quota was raised;
// it tries at once when the Deployment changes, and an annotation of the Deployment rolls nothing.
const refusedRetry = 30 * time.Second

// podsRefusedSince is when the Deployment's pods were first refused. Zero: they are not.
func (in Input) podsRefusedSince() time.Time {
	if !in.Children.Deployment.Exists() {
		return time.Time{}
	}
	refused := deploymentCondition(in.Children.Deployment.Live, appsv1.DeploymentReplicaFailure)
	if refused == nil || refused.Status != corev1.ConditionTrue {
		return time.Time{}
	}
	return refused.LastTransitionTime.Time
}

// applyDeployment adds the write of the Deployment if it differs. While an autoscaler may write the replica count at any moment, a write
// that states one is conditional on the object that it was read from.
func applyDeployment(p *Plan, in Input) {
	child, config := in.Children.Deployment, in.deployment()
	write := apply(p, in.Now, child, config)
	if write == nil {
		return
	}
	scaled := in.Children.Autoscaler.Exists() || in.Children.HTTPScaledObject.Exists()
	write.KeepReplicas = !in.asleep() && (in.autoscaled() || in.kedaScaled() || scaled)
	if child.Exists() && config.Spec.Replicas != nil && scaled {
		write.ResourceVersion = child.Live.ResourceVersion
	}
}

// labels of every child. Nobody else's labels are copied.
func (in Input) labels() map[string]string { return labels(in.Workspace.Name) }

func labels(workspace string) map[string]string {
	return map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy,
		v1alpha1.LabelWorkspace: names.Label(workspace),
	}
}

// selectorLabels never change: a Deployment's selector is immutable.
func (in Input) selectorLabels() map[string]string {
	return map[string]string{v1alpha1.LabelWorkspace: names.Label(in.Workspace.Name)}
}

// owner lets the garbage collector take the child after the Workspace.
func (in Input) owner() *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.SchemeGroupVersion.String()).WithKind("Workspace").
		WithName(in.Workspace.Name).WithUID(in.Workspace.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}
