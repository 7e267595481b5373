// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"

	"k8s.io/component-base/metrics"
)

// Metrics are those of the reporters. Nil records nothing.
type Metrics struct {
	available *metrics.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry metrics.KubeRegistry) (*Metrics, error) {
	m := &Metrics{available: metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "formspec", Subsystem: "cluster_control", Name: "metrics_api_available", StabilityLevel: metrics.ALPHA,
		Help: "1 while metrics.k8s.io answers, 0 while it does not, so that the usage of nodes and Workspaces is reported as unknown.",
	})}
	if err := registry.Register(m.available); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func (m *Metrics) metricsAPI(available bool) {
	if m == nil {
		return
	}
	value := 0.0
	if available {
		value = 1
	}
	m.available.Set(value)
}
