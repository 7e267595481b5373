// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// tiers maps a class's nodeType to the value of the node label formspec.dev/tier. Source: contract §2.
var tiers = map[string]string{
	"":                         "",
	v1alpha1.NodeTypeDedicated: "enterprise",
	v1alpha1.NodeTypeShared:    "shared",
	v1alpha1.NodeTypeDev:       "dev",
}

// nodeSelector holds the node labels without which no pod may run.
func (in Input) nodeSelector() map[string]string {
	selector := map[string]string{}
	for label, value := range map[string]string{
		v1alpha1.LabelEnvironment: string(in.Workspace.Spec.Environment),
		v1alpha1.LabelRegion:      in.Workspace.Spec.Region,
		v1alpha1.LabelTier:        tiers[in.Class.Spec.NodeType],
	} {
		if value != "" {
			selector[label] = value
		}
	}
	return selector
}

// capacity is the band of nodes that suits a CPU request.
func capacity(cpu resource.Quantity) string {
	switch {
	case cpu.Cmp(resource.MustParse("4")) >= 0:
		return "high"
	case cpu.Cmp(resource.MustParse("1")) >= 0:
		return "medium"
	default:
		return "low"
	}
}

// affinity prefers nodes of the right capacity and keeps replicas on different nodes. The hard form looks at pods of the same revision
// only, so that a rollout needs no spare node for each replica.
func (in Input) affinity(cpu resource.Quantity) *corev1ac.AffinityApplyConfiguration {
	apart := corev1ac.PodAffinityTerm().WithTopologyKey(corev1.LabelHostname).WithLabelSelector(in.selector())
	antiAffinity := corev1ac.PodAntiAffinity()
	if in.spreadRequired() {
		antiAffinity.WithRequiredDuringSchedulingIgnoredDuringExecution(apart.WithMatchLabelKeys(revisionLabel))
	} else {
		antiAffinity.WithPreferredDuringSchedulingIgnoredDuringExecution(
			corev1ac.WeightedPodAffinityTerm().WithWeight(100).WithPodAffinityTerm(apart))
	}
	return corev1ac.Affinity().WithPodAntiAffinity(antiAffinity).WithNodeAffinity(corev1ac.NodeAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(corev1ac.PreferredSchedulingTerm().WithWeight(50).WithPreference(
			corev1ac.NodeSelectorTerm().WithMatchExpressions(corev1ac.NodeSelectorRequirement().
				WithKey(v1alpha1.LabelCapacity).WithOperator(corev1.NodeSelectorOpIn).WithValues(capacity(cpu))))))
}

// revisionLabel tells the pods of one rollout from those of the next.
const revisionLabel = "pod-template-hash"

// spread keeps replicas evenly over nodes and, where the class asks for it, over zones.
func (in Input) spread() []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	unsatisfiable := corev1.ScheduleAnyway
	if in.spreadRequired() {
		unsatisfiable = corev1.DoNotSchedule
	}
	keys := []string{corev1.LabelHostname}
	if in.multiZone() {
		keys = append(keys, corev1.LabelTopologyZone)
	}
	constraints := make([]*corev1ac.TopologySpreadConstraintApplyConfiguration, 0, len(keys))
	for _, key := range keys {
		constraints = append(constraints, corev1ac.TopologySpreadConstraint().WithMaxSkew(1).WithTopologyKey(key).
			WithWhenUnsatisfiable(unsatisfiable).WithLabelSelector(in.selector()).WithMatchLabelKeys(revisionLabel))
	}
	return constraints
}

func (in Input) spreadRequired() bool {
	return in.Class.Spec.Scaling.Spread == v1alpha1.SpreadRequired
}

func (in Input) multiZone() bool {
	return in.Class.Spec.Availability == v1alpha1.AvailabilityMultiAZ || in.hasFeature(v1alpha1.FeatureCrossAZFailover)
}

func (in Input) selector() *metav1ac.LabelSelectorApplyConfiguration {
	return metav1ac.LabelSelector().WithMatchLabels(in.selectorLabels())
}
