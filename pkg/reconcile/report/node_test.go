// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

// node is one that is Ready, with changes.
func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"formspec.dev/tier": "shared", "kubernetes.io/hostname": "secret-name"}},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
			},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3910m"), corev1.ResourceMemory: resource.MustParse("7Gi")},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			},
		},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

func says(condition corev1.NodeConditionType, status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for i := range n.Status.Conditions {
			if n.Status.Conditions[i].Type == condition {
				n.Status.Conditions[i].Status = status
				return
			}
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: condition, Status: status})
	}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func TestHealth(t *testing.T) {
	for name, row := range map[string]struct {
		node    *corev1.Node
		status  clustercontrol.Health
		reasons []string
	}{
		"nothing is wrong":         {node("n"), clustercontrol.HealthHealthy, nil},
		"not ready":                {node("n", says(corev1.NodeReady, corev1.ConditionFalse)), clustercontrol.HealthUnhealthy, []string{"NotReady"}},
		"not heard of":             {node("n", says(corev1.NodeReady, corev1.ConditionUnknown)), clustercontrol.HealthUnhealthy, []string{"NotReady"}},
		"new, without a condition": {&corev1.Node{}, clustercontrol.HealthUnhealthy, []string{"NotReady"}},
		"no network":               {node("n", says(corev1.NodeNetworkUnavailable, corev1.ConditionTrue)), clustercontrol.HealthUnhealthy, []string{"NetworkUnavailable"}},
		"memory":                   {node("n", says(corev1.NodeMemoryPressure, corev1.ConditionTrue)), clustercontrol.HealthDegraded, []string{"MemoryPressure"}},
		"disk":                     {node("n", says(corev1.NodeDiskPressure, corev1.ConditionTrue)), clustercontrol.HealthDegraded, []string{"DiskPressure"}},
		"processes":                {node("n", says(corev1.NodePIDPressure, corev1.ConditionTrue)), clustercontrol.HealthDegraded, []string{"PIDPressure"}},
		"a pressure that nobody knows of": {
			node("n", says(corev1.NodePIDPressure, corev1.ConditionUnknown)), clustercontrol.HealthHealthy, nil,
		},
		"cordoned": {node("n", cordoned), clustercontrol.HealthDegraded, []string{"Cordoned"}},
		"being deleted": {
			node("n", func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Now()) }), clustercontrol.HealthDegraded, []string{"Terminating"},
		},
		"everything": {
			node("n", cordoned, says(corev1.NodeReady, corev1.ConditionFalse), says(corev1.NodeDiskPressure, corev1.ConditionTrue)),
			clustercontrol.HealthUnhealthy,
			[]string{"NotReady", "DiskPressure", "Cordoned"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, reasons := report.Health(row.node)
			if status != row.status || !reflect.DeepEqual(reasons, row.reasons) {
				t.Errorf("got %s %v, want %s %v", status, reasons, row.status, row.reasons)
			}
		})
	}
}

func TestNodeReport(t *testing.T) {
	usage := &clustercontrol.Amounts{CPUMillicores: 1, MemoryBytes: 2}
	got := report.Node(node("n1"), 3, usage)
	want := clustercontrol.NodeReport{
		Node: "n1", Status: clustercontrol.HealthHealthy, Labels: map[string]string{"formspec.dev/tier": "shared"}, Workspaces: 3,
		Allocatable: clustercontrol.Amounts{CPUMillicores: 3910, MemoryBytes: 7 << 30}, Usage: usage,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNodeRegistration(t *testing.T) {
	got := report.NodeRegistration(node("n1"))
	want := clustercontrol.Registration{
		Kind: clustercontrol.KindNode, ID: "n1", Action: clustercontrol.ActionRegister, Labels: map[string]string{"formspec.dev/tier": "shared"},
		Capacity: map[string]int64{"cpu_millicores": 4000, "memory_bytes": 8 << 30, "pods": 110},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if unknown := report.NodeRegistration(&corev1.Node{}).Capacity; len(unknown) != 0 {
		t.Errorf("of a node that says nothing: %v", unknown)
	}
}
