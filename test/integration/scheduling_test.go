// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

var labelCommand = regexp.MustCompile(`kubectl (label node )<node>((?: [^ =]+=[^ =]+)+)`)

// A Workspace that no node takes says what to type, and that helps.
func TestUnschedulable(t *testing.T) {
	t.Parallel()

	t.Run("a node gets the labels", func(t *testing.T) {
		t.Parallel()
		s := given(t)
		const node = "sim-unlabelled-1"

		// given
		shop := s.workspace("shop", s.class(nodeType(v1alpha1.NodeTypeDev)))

		// then
		s.within(30*time.Second, "Workspace shop says why", func() error {
			return failingNow(shop.get(), v1alpha1.ReasonUnschedulable, "kubectl label node <node> formspec.dev/tier=dev")
		})
		for _, pod := range shop.pods() {
			if pod.Status.Phase != corev1.PodPending {
				t.Errorf("pod %s is %s, want Pending", pod.Name, pod.Status.Phase)
			}
		}

		// when
		var message string
		for _, c := range shop.get().Status.Conditions {
			if c.Type == v1alpha1.ConditionReady {
				message = c.Message
			}
		}
		command := labelCommand.FindStringSubmatch(message)
		if command == nil {
			t.Fatalf("the message has no command: %s", message)
		}
		s.Cleanup(func() { _, _ = s.cluster.kubectl(context.Background(), "label", "node", node, "formspec.dev/tier-") })
		s.kubectl(strings.Fields(command[1] + node + command[2])...)

		// then
		shop.ready()
		if pods := shop.pods(); pods[0].Spec.NodeName != node {
			t.Errorf("the pod runs on %s, want %s", pods[0].Spec.NodeName, node)
		}
	})

	t.Run("nodes are added", func(t *testing.T) {
		t.Parallel()
		s := given(t)

		// given
		shop := s.workspace("shop", s.class(), func(ws *v1alpha1.Workspace) {
			ws.Spec.Region, ws.Spec.Environment = "surabaya", v1alpha1.EnvironmentStaging
		})
		shop.failing(v1alpha1.ReasonUnschedulable, "formspec.dev/environment=staging", "formspec.dev/region=surabaya")

		// when
		_, err := s.cluster.devcluster(t.Context(), "nodes", "--environment", "staging", "--region", "surabaya")
		s.must("add a node", err)

		// then
		shop.ready()
	})
}

func nodeType(name string) func(*v1alpha1.ClusterClass) {
	return func(class *v1alpha1.ClusterClass) { class.Spec.NodeType = name }
}
