// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"
)

// answers counts how requests ended.
type answers struct {
	mu      sync.Mutex
	good    map[string]int // by pod
	refused int            // 503 with Retry-After
	others  []error
}

func (a *answers) record(answer seen, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	refused, ok := errors.AsType[*refusedError](err)
	switch {
	case err == nil:
		a.good[answer.Pod]++
	case ok && refused.code == http.StatusServiceUnavailable && refused.header.Get("Retry-After") != "":
		a.refused++
	default:
		a.others = append(a.others, err)
	}
}

// flood sends that many requests at once, each on a connection of its own, and returns when all have ended.
func (w *tenant) flood(requests int) *answers {
	w.Helper()
	a := &answers{good: map[string]int{}}
	client := w.client()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	var running sync.WaitGroup
	for range requests {
		running.Go(func() {
			answer, _, err := get(ctx, client, w.url("/"))
			a.record(answer, err)
		})
	}
	running.Wait()
	return a
}

// Thousands of requests for one Workspace that sleeps are held or turned away, and are one wake. Who has nothing to do with it notices nothing.
func TestFlood(t *testing.T) {
	s := given(t)
	const requests = 5000
	delay := either(30*time.Second, 6*time.Second)
	class := s.class(economy(time.Hour))
	other := s.workspace("other", class).serving().watched()
	shop := s.workspace("shop", s.class(economy(time.Hour), of(s.image("START_DELAY="+delay.String())))).serving().watched()
	s.toSleep(shop)
	pods, before, activators, limit := shop.watchPods(), shop.deployment(), s.activatorProcesses(), s.activatorLimit()
	start := s.resetPeaks(activators)
	traffic := other.traffic(2)

	// when
	have := shop.flood(requests)

	// then
	peaks := s.peaks(activators)
	traffic.unbroken()
	held := 0
	for pod, n := range have.good {
		held += n
		t.Logf("pod %s answered %d requests", pod, n)
	}
	t.Logf("of %d requests %d were answered and %d told to come back; the activators' memory went from %d to %d MiB at its peak, of %s",
		requests, held, have.refused, mebibytes(start), mebibytes(peaks), limit)
	if len(have.others) > 0 {
		t.Errorf("%d requests ended in another way, the first with %v", len(have.others), have.others[0])
	}
	if len(have.good) != 1 || held == 0 {
		t.Errorf("%d pods answered %d requests, want one", len(have.good), held)
	}
	for _, peak := range peaks {
		if peak >= limit.Value() {
			t.Errorf("an activator had %d MiB", peak>>20)
		}
	}
	s.unharmed()
	if after := shop.deployment(); after.Generation != before.Generation+1 {
		t.Errorf("the wake was %d writes of the Deployment's spec", after.Generation-before.Generation)
	}
	if n := len(pods.stories()); n != 1 {
		t.Errorf("there were %d pods", n)
	}
}

func mebibytes(all []int64) []int64 {
	var rounded []int64
	for _, bytes := range all {
		rounded = append(rounded, bytes>>20)
	}
	return rounded
}
