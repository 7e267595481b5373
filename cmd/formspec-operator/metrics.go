// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // work queues, API requests, leader election

	"github.com/formspec/formspec-operator/pkg/version"
)

// newRegistry returns the operator's own metrics, with those that say what runs here.
func newRegistry(o *options) (metrics.KubeRegistry, error) {
	build := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "formspec_operator_build_info",
		Help:           "Always 1: the labels say which build this is.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"version", "commit", "go_version"})
	insecure := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "formspec_operator_insecure_option",
		Help:           "1 for each option that is on and makes the operator insecure.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"option"})
	registry := metrics.NewKubeRegistry()
	for _, m := range []metrics.Registerable{build, insecure} {
		if err := registry.Register(m); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	v := version.Get()
	build.WithLabelValues(v.Version, v.Commit, v.GoVersion).Set(1)
	for _, name := range o.insecure() {
		insecure.WithLabelValues(name).Set(1)
	}
	return registry, nil
}

// metricsHandler serves registry and the metrics of the libraries, which have a registry of the whole process.
func metricsHandler(registry metrics.KubeRegistry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.HandlerFor(prometheus.Gatherers{legacyregistry.DefaultGatherer, registry}, metrics.HandlerOpts{}))
	return mux
}
