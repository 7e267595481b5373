// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"fmt"

	"k8s.io/component-base/metrics"
)

// NewMetrics registers the counter of writes and returns what counts them, for Config.Wrote.
func NewMetrics(registry metrics.KubeRegistry) (wrote func(wake bool, err error), err error) {
	writes := metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "formspec", Subsystem: "activator", Name: "lease_writes_total",
		Help:           "Writes of Leases, by purpose (wake or renewal) and result (success or error).",
		StabilityLevel: metrics.ALPHA,
	}, []string{"purpose", "result"})
	if err := registry.Register(writes); err != nil {
		return nil, fmt.Errorf("register the metrics of Leases: %w", err)
	}
	return func(wake bool, err error) {
		purpose, result := "renewal", "success"
		if wake {
			purpose = "wake"
		}
		if err != nil {
			result = "error"
		}
		writes.WithLabelValues(purpose, result).Inc()
	}, nil
}
