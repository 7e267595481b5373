// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The main job on the seed's own objects, as a user would type them.
func TestSample(t *testing.T) {
	t.Parallel()
	s := given(t)

	// when
	s.kubectl("apply", "-f", filepath.Join(root, "manifests/samples/bank-mandiri.yaml"))
	s.Cleanup(func() { s.deleteClass("premium") })
	bank := &tenant{scenario: s, name: "bank-mandiri-prod"}
	bank.ready()

	// then
	if pods := bank.pods(); len(pods) != 2 {
		t.Fatalf("there are %d pods, want 2", len(pods))
	}
	nodes := sets.New[string]()
	for _, pod := range bank.pods() {
		nodes.Insert(pod.Spec.NodeName)
		if err := s.nodeHas(pod.Spec.NodeName, map[string]string{
			"formspec.dev/environment": "prod", "formspec.dev/region": "jakarta", "formspec.dev/tier": "enterprise",
		}); err != nil {
			t.Error(err)
		}
		if pod.Status.QOSClass != corev1.PodQOSGuaranteed {
			t.Errorf("pod %s is %s: stated resources are requests and limits", pod.Name, pod.Status.QOSClass)
		}
	}
	if len(nodes) != 2 {
		t.Errorf("both pods are on one node: %v", sets.List(nodes))
	}
	if ws := bank.get(); ws.Status.ReadyReplicas != 2 || ws.Status.Phase != "Ready" {
		t.Errorf("the status has phase %s and %d ready replicas", ws.Status.Phase, ws.Status.ReadyReplicas)
	}
	if err := bank.asRendered(); err != nil {
		t.Error(err)
	}
	for _, k := range childKinds {
		if bank.child(k) == nil {
			t.Errorf("there is no %s", k.kind)
		}
	}
}

func (s *scenario) nodeHas(name string, labels map[string]string) error {
	node, err := s.kube.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for label, value := range labels {
		if node.Labels[label] != value {
			return fmt.Errorf("a pod runs on node %s, whose label %s is %q, not %q", name, label, node.Labels[label], value)
		}
	}
	return nil
}
