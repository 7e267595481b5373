// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"fmt"
	"time"

	"k8s.io/component-base/metrics"
)

// outcome is how a request ended. Every value is documented in docs/scale-to-zero.md.
type outcome string

const (
	outcomeForwarded   outcome = "forwarded"    // a pod was there
	outcomeWoken       outcome = "woken"        // held, then answered by a pod
	outcomeStarting    outcome = "starting"     // the starting page
	outcomeTimeout     outcome = "timeout"      // held until the wake deadline
	outcomeRejected    outcome = "rejected"     // not held: too many are
	outcomeCanceled    outcome = "canceled"     // the client hung up
	outcomeFailed      outcome = "failed"       // the pod did not answer, or not to the end
	outcomeUnknownHost outcome = "unknown_host" // no Workspace has that name
)

// proxyMetrics are the activator's own. No label has anything that a user wrote: classes are the cloud owner's. Nil records nothing.
type proxyMetrics struct {
	held     *metrics.Gauge
	requests *metrics.CounterVec
	rejected *metrics.CounterVec
	wakes    *metrics.Histogram
}

func newProxyMetrics(registry metrics.KubeRegistry) (*proxyMetrics, error) {
	const namespace, subsystem = "formspec", "activator"
	m := &proxyMetrics{
		held: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "held_requests",
			Help:           "Requests that wait for a pod now.",
			StabilityLevel: metrics.ALPHA,
		}),
		requests: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "requests_total",
			Help:           "Requests that have ended, by ClusterClass and outcome.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"class", "outcome"}),
		rejected: metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "rejected_requests_total",
			Help:           "Requests that were not held, by the limit that they met: total, workspace or connection.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"limit"}),
		wakes: metrics.NewHistogram(&metrics.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "wake_duration_seconds",
			Help:           "From the first held request until a pod of the Workspace could be dialled.",
			Buckets:        []float64{0.25, 0.5, 1, 1.5, 2, 3, 5, 8, 13, 20, 30, 60, 120, 300},
			StabilityLevel: metrics.ALPHA,
		}),
	}
	for _, metric := range []metrics.Registerable{m.held, m.requests, m.rejected, m.wakes} {
		if err := registry.Register(metric); err != nil {
			return nil, fmt.Errorf("register the metrics of the activator: %w", err)
		}
	}
	return m, nil
}

func (m *proxyMetrics) heldRequests(n int) {
	if m != nil {
		m.held.Set(float64(n))
	}
}

func (m *proxyMetrics) awake(after time.Duration) {
	if m != nil {
		m.wakes.Observe(after.Seconds())
	}
}

func (m *proxyMetrics) ended(class string, o outcome) {
	if m != nil {
		m.requests.WithLabelValues(class, string(o)).Inc()
	}
}

func (m *proxyMetrics) reject(limit string) {
	if m != nil {
		m.rejected.WithLabelValues(limit).Inc()
	}
}
