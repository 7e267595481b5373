// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"k8s.io/component-base/metrics"
)

// Metrics are the reconcile metrics, shared by all controllers. Nil records nothing.
type Metrics struct {
	duration *metrics.HistogramVec
}

// NewMetrics registers the reconcile metrics.
func NewMetrics(registry metrics.KubeRegistry) (*Metrics, error) {
	m := &Metrics{duration: metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace:      "formspec",
		Name:           "reconcile_duration_seconds",
		Help:           "How long one sync took, by controller and outcome.",
		Buckets:        metrics.ExponentialBuckets(0.0005, 2, 16),
		StabilityLevel: metrics.ALPHA,
	}, []string{"controller", "outcome"})}
	return m, registry.Register(m.duration)
}

func (m *Metrics) observe(controller string, o outcome, took time.Duration) {
	if m != nil {
		m.duration.WithLabelValues(controller, string(o)).Observe(took.Seconds())
	}
}
