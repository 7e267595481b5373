// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"

	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// targetCPU is the average use of the CPU request, in percent, above which replicas are added. Source: contract §2.
const targetCPU = 70

// autoscaler is the HorizontalPodAutoscaler of a class with auto-scaling. It stays while the workspace sleeps: at zero replicas it only
// reports ScalingDisabled.
func (in Input) autoscaler() *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	name := names.Deployment(in.Workspace.Name)
	return autoscalingv2ac.HorizontalPodAutoscaler(name, in.Workspace.Namespace).
		WithLabels(in.labels()).WithOwnerReferences(in.owner()).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().WithAPIVersion("apps/v1").WithKind("Deployment").WithName(name)).
			WithMinReplicas(in.minimum()).WithMaxReplicas(in.maximum()).
			WithMetrics(autoscalingv2ac.MetricSpec().WithType(autoscalingv2.ResourceMetricSourceType).
				WithResource(autoscalingv2ac.ResourceMetricSource().WithName(corev1.ResourceCPU).
					WithTarget(autoscalingv2ac.MetricTarget().WithType(autoscalingv2.UtilizationMetricType).WithAverageUtilization(targetCPU)))))
}
