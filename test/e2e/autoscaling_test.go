// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// metricsAPI adds a metrics server to the cluster, for the first test that asks for it.
func (s *scenario) metricsAPI() {
	s.Helper()
	s.metricsOnce.Do(func() { _, s.metricsErr = s.cluster.devcluster(s.Context(), "metrics") })
	s.must("add a metrics server", s.metricsErr)
}

// The autoscaler finds the pods of a Workspace and what share of their request they use, which it can only if they have one.
func TestAutoscalerSeesThePods(t *testing.T) {
	t.Parallel()
	s := given(t)
	s.metricsAPI()
	shop := s.workspace("shop", s.class(func(class *v1alpha1.ClusterClass) {
		class.Spec.Features = []string{v1alpha1.FeatureAutoScaling}
	})).ready()

	s.eventually("the autoscaler knows the utilization", func() error {
		hpa, err := s.kube.AutoscalingV2().HorizontalPodAutoscalers(s.namespace).Get(s.Context(), names.Deployment(shop.name), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, m := range hpa.Status.CurrentMetrics {
			if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource.Current.AverageUtilization != nil {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", hpa.Status)
	})
	if have := len(shop.pods()); have != 1 {
		t.Errorf("an idle Workspace has %d pods", have)
	}
	shop.ready()
}
