// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"k8s.io/component-base/metrics"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
)

// RegisterMetrics registers the count of Workspaces by whether they sleep. It is taken when somebody asks for it.
func RegisterMetrics(registry metrics.KubeRegistry, workspaces []formspecinformers.TypedWorkspaceInformer) error {
	c := &counter{desc: metrics.NewDesc("formspec_workspaces",
		"Number of Workspaces, by whether they sleep at zero replicas.", []string{"state"}, nil, metrics.ALPHA, "")}
	for _, informer := range workspaces {
		c.stores = append(c.stores, informer.Informer().GetStore())
	}
	return registry.CustomRegister(c)
}

// counter counts what is in the caches.
type counter struct {
	metrics.BaseStableCollector
	desc   *metrics.Desc
	stores []interface{ List() []any }
}

// DescribeWithStability says what is counted.
func (c *counter) DescribeWithStability(descriptions chan<- *metrics.Desc) { descriptions <- c.desc }

// CollectWithStability counts.
func (c *counter) CollectWithStability(found chan<- metrics.Metric) {
	counts := map[string]int{"awake": 0, "asleep": 0}
	for _, store := range c.stores {
		for _, object := range store.List() {
			ws, ok := object.(*v1alpha1.Workspace)
			if !ok {
				continue
			}
			if ws.Status.Phase == v1alpha1.PhaseSleeping {
				counts["asleep"]++
			} else {
				counts["awake"]++
			}
		}
	}
	for state, n := range counts {
		found <- metrics.NewLazyConstMetric(c.desc, metrics.GaugeValue, float64(n), state)
	}
}
