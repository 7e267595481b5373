// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
)

func TestMetricsCountEachOutcome(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		panics bool
	}{
		"success":               {},
		"stale":                 {err: ErrStale},
		"conflict":              {err: errConflict},
		"namespace_terminating": {err: errTerminating},
		"terminal":              {err: Terminal(errOrdinary)},
		"panic":                 {panics: true},
		"error":                 {err: errNotFoundKind},
	} {
		t.Run(name, func(t *testing.T) {
			recordErrors(t)
			registry := metrics.NewKubeRegistry()
			m, err := NewMetrics(registry)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				first := true
				w := &Worker{Name: "formspec-test", Metrics: m, Sync: func(context.Context, cache.ObjectName) (time.Duration, error) {
					if !first {
						return 0, nil
					}
					first = false
					<-time.After(3 * time.Second)
					if row.panics {
						panic("nil map")
					}
					return 0, row.err
				}}
				stop := start(t, w, 1)
				w.Queue.Add(shop)
				pass(3*time.Second + time.Millisecond)
				stop()
			})
			count, seconds := observed(t, registry, name)
			if count != 1 || seconds != 3 {
				t.Errorf("%d syncs of %g s with outcome %q, want 1 of 3 s", count, seconds, name)
			}
		})
	}
}

func TestMetricsRegisterOnce(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	if _, err := NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("no error for a second registration")
	}
}

// observed is how many syncs of formspec-test had that outcome, and how long they took together.
func observed(t *testing.T, registry metrics.KubeRegistry, outcome string) (count uint64, seconds float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "formspec_reconcile_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["controller"] == "formspec-test" && labels["outcome"] == outcome {
				return metric.GetHistogram().GetSampleCount(), metric.GetHistogram().GetSampleSum()
			}
		}
	}
	return 0, 0
}
