// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"fmt"
	"time"

	"k8s.io/component-base/metrics"
)

// Metrics are those of the channel to Cluster Control. Nil records nothing.
type Metrics struct {
	up        *metrics.Gauge
	requests  *metrics.CounterVec
	success   *metrics.GaugeVec
	envelopes *metrics.GaugeVec
	bytes     *metrics.GaugeVec
	drops     *metrics.CounterVec
}

const metricsNamespace, metricsSubsystem = "formspec", "cluster_control"

// NewMetrics registers the metrics.
func NewMetrics(registry metrics.KubeRegistry) (*Metrics, error) {
	gauge := func(name, help string) *metrics.GaugeVec {
		return metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, []string{"endpoint"})
	}
	counter := func(name, help, label string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{
			Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
		}, []string{"endpoint", label})
	}
	m := &Metrics{
		up: metrics.NewGauge(&metrics.GaugeOpts{
			Namespace: metricsNamespace, Subsystem: metricsSubsystem, Name: "reachable", StabilityLevel: metrics.ALPHA,
			Help: "1 while every endpoint of Cluster Control that was asked answers, 0 while one fails.",
		}),
		requests: counter("requests_total", "Requests to Cluster Control, by endpoint and outcome.", "outcome"),
		success:  gauge("last_success_timestamp_seconds", "When Cluster Control last took or gave records, in seconds since 1970, by endpoint."),
		envelopes: gauge("queued_envelopes",
			"Envelopes that wait for Cluster Control, or would be made of the records that wait, by endpoint."),
		bytes: gauge("queued_bytes", "Bytes that wait for Cluster Control, by endpoint."),
		drops: counter("dropped_total", "Records that will never reach Cluster Control, by endpoint and reason.", "reason"),
	}
	for _, metric := range []metrics.Registerable{m.up, m.requests, m.success, m.envelopes, m.bytes, m.drops} {
		if err := registry.Register(metric); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) reachable(yes bool) {
	if m == nil {
		return
	}
	value := 0.0
	if yes {
		value = 1
	}
	m.up.Set(value)
}

func (m *Metrics) observe(endpoint Endpoint, o outcome, now time.Time) {
	if m == nil {
		return
	}
	m.requests.WithLabelValues(string(endpoint), string(o)).Inc()
	if o == accepted || o == duplicate || o == notModified {
		m.success.WithLabelValues(string(endpoint)).Set(float64(now.Unix()))
	}
}

func (m *Metrics) queued(endpoint Endpoint, envelopes int, bytes int64) {
	if m == nil {
		return
	}
	m.envelopes.WithLabelValues(string(endpoint)).Set(float64(envelopes))
	m.bytes.WithLabelValues(string(endpoint)).Set(float64(bytes))
}

// dropReason is why a record will never arrive.
type dropReason string

const (
	dropRefused  dropReason = "refused"   // answered with a 4xx
	dropTooLarge dropReason = "too_large" // one record beyond maxRecordBytes
	dropNoRoom   dropReason = "no_room"   // the outbox is full
	dropLate     dropReason = "late"      // a beat of node-health that could not be sent in its time
	dropInvalid  dropReason = "invalid"   // an item of deploy-status that the operator cannot use
)

func (m *Metrics) dropped(endpoint Endpoint, reason dropReason, records int) {
	if m != nil && records > 0 {
		m.drops.WithLabelValues(string(endpoint), string(reason)).Add(float64(records))
	}
}
