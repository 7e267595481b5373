// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics"
)

// serving are the flags about metrics and probes, which every command that runs until a signal has.
type serving struct {
	metricsBindAddress string
	metricsSecure      bool
	metricsCertFile    string
	metricsKeyFile     string
	healthBindAddress  string
}

func newServing() serving {
	return serving{metricsBindAddress: ":8443", metricsSecure: true, healthBindAddress: ":8081"}
}

func (s *serving) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.metricsBindAddress, "metrics-bind-address", s.metricsBindAddress, "Address that serves /metrics. 0: none.")
	fs.BoolVar(&s.metricsSecure, "metrics-secure", s.metricsSecure, "Serve /metrics over HTTPS.")
	fs.StringVar(&s.metricsCertFile, "metrics-cert-file", s.metricsCertFile, "Certificate for /metrics, read again when it changes. Empty: a self-signed one, made at each start.")
	fs.StringVar(&s.metricsKeyFile, "metrics-key-file", s.metricsKeyFile, "Private key of --metrics-cert-file.")
	fs.StringVar(&s.healthBindAddress, "health-probe-bind-address", s.healthBindAddress, "Address that serves /healthz and /readyz. 0: none.")
}

// validate refuses every mistake, each with the flag to change.
func (s *serving) validate(refuse func(format string, args ...any)) {
	if (s.metricsCertFile == "") != (s.metricsKeyFile == "") {
		refuse("--metrics-cert-file and --metrics-key-file: each needs the other")
	}
	if s.metricsCertFile != "" && !s.metricsSecure {
		refuse("--metrics-cert-file: has no use with --metrics-secure=false")
	}
}

// servers serve metrics and probes. Those of the zero value do nothing.
type servers struct {
	health  *server
	metrics *server
}

// listen binds both addresses. Whoever gets an error still has to stop what was bound.
func (s *serving) listen(ready func() error, registry metrics.KubeRegistry) (bound servers, err error) {
	if bound.health, err = newServer(s.healthBindAddress, healthHandler(ready), nil); err != nil {
		return bound, fmt.Errorf("serve probes: %w", err)
	}
	var secure *tls.Config
	if s.metricsSecure {
		if secure, err = servingTLS(s.metricsCertFile, s.metricsKeyFile, time.Now()); err != nil {
			return bound, fmt.Errorf("serve metrics: %w", err)
		}
	}
	if bound.metrics, err = newServer(s.metricsBindAddress, metricsHandler(registry), secure); err != nil {
		return bound, fmt.Errorf("serve metrics: %w", err)
	}
	return bound, nil
}

// start serves until stop; fail is called if one ends by itself.
func (s *servers) start(fail func(error)) {
	s.health.start(fail)
	s.metrics.start(fail)
}

func (s *servers) stop() {
	s.health.stop()
	s.metrics.stop()
}
