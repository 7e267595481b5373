// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// LabelPrefix is that of the labels that are reported: those by which Workspaces are placed. Others are nobody's business.
const LabelPrefix = "formspec.dev/"

// The reasons why a node is not healthy.
const (
	notReady           = "NotReady"
	networkUnavailable = "NetworkUnavailable"
	memoryPressure     = "MemoryPressure"
	diskPressure       = "DiskPressure"
	pidPressure        = "PIDPressure"
	cordoned           = "Cordoned"
	terminating        = "Terminating"
)

// Health says how a node is, with every reason, the worst first. A node that cannot run pods is unhealthy, one that should not be given
// more is degraded. Source: contract §5.2.
func Health(node *corev1.Node) (clustercontrol.Health, []string) {
	conditions := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range node.Status.Conditions {
		conditions[c.Type] = c.Status
	}
	var unhealthy, degraded []string
	if conditions[corev1.NodeReady] != corev1.ConditionTrue { // Unknown: it is not heard of
		unhealthy = append(unhealthy, notReady)
	}
	if conditions[corev1.NodeNetworkUnavailable] == corev1.ConditionTrue {
		unhealthy = append(unhealthy, networkUnavailable)
	}
	for _, pressure := range []struct {
		condition corev1.NodeConditionType
		reason    string
	}{
		{corev1.NodeMemoryPressure, memoryPressure},
		{corev1.NodeDiskPressure, diskPressure},
		{corev1.NodePIDPressure, pidPressure},
	} {
		if conditions[pressure.condition] == corev1.ConditionTrue {
			degraded = append(degraded, pressure.reason)
		}
	}
	if node.Spec.Unschedulable {
		degraded = append(degraded, cordoned)
	}
	if node.DeletionTimestamp != nil {
		degraded = append(degraded, terminating)
	}
	switch {
	case len(unhealthy) > 0:
		return clustercontrol.HealthUnhealthy, append(unhealthy, degraded...)
	case len(degraded) > 0:
		return clustercontrol.HealthDegraded, degraded
	default:
		return clustercontrol.HealthHealthy, nil
	}
}

// Node is one node in one beat. usage is nil where nobody can tell.
func Node(node *corev1.Node, workspaces int64, usage *clustercontrol.Amounts) clustercontrol.NodeReport {
	status, reasons := Health(node)
	return clustercontrol.NodeReport{
		Node: node.Name, Status: status, Reasons: reasons, Labels: labels(node.Labels), Workspaces: workspaces,
		Allocatable: Amounts(node.Status.Allocatable), Usage: usage,
	}
}

// Amounts are the CPU and memory of a list of resources.
func Amounts(resources corev1.ResourceList) clustercontrol.Amounts {
	return clustercontrol.Amounts{CPUMillicores: resources.Cpu().MilliValue(), MemoryBytes: resources.Memory().Value()}
}

// NodeRegistration is a node as it is registered.
func NodeRegistration(node *corev1.Node) clustercontrol.Registration {
	capacity, amounts := map[string]int64{}, Amounts(node.Status.Capacity)
	known(capacity, clustercontrol.CapacityCPUMillicores, amounts.CPUMillicores)
	known(capacity, clustercontrol.CapacityMemoryBytes, amounts.MemoryBytes)
	known(capacity, clustercontrol.CapacityPods, node.Status.Capacity.Pods().Value())
	return clustercontrol.Registration{
		Kind: clustercontrol.KindNode, ID: node.Name, Action: clustercontrol.ActionRegister, Labels: labels(node.Labels), Capacity: capacity,
	}
}

// known enters what is known; 0 is not.
func known(capacity map[string]int64, key string, value int64) {
	if value > 0 {
		capacity[key] = value
	}
}

// labels are those that may be reported.
func labels(all map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range all {
		if strings.HasPrefix(key, LabelPrefix) {
			kept[key] = value
		}
	}
	return kept
}
