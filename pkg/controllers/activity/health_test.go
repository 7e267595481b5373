// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// watching is a health with a first watch of that many seconds, in a bubble.
type watching struct {
	*health
	inner *watch.FakeWatcher
	outer watch.Interface
}

func (w *watching) open() {
	w.inner = watch.NewFakeWithOptions(watch.FakeOptions{})
	w.outer = w.observe(w.inner, ptr.To[int64](300))
	outer := w.outer
	go func() {
		for range outer.ResultChan() { // events are somebody else's business
		}
	}()
}

// quiet is for how long the watch has been healthy.
func (w *watching) quiet() time.Duration {
	since, healthy := w.healthySince()
	if !healthy {
		return -1
	}
	return w.clock.Since(since)
}

func TestHealth(t *testing.T) {
	const minute = time.Minute
	wait := func(d time.Duration) func(*watching) { return func(*watching) { <-time.After(d) } }
	ends := func(w *watching) { w.inner.Stop() }
	stops := func(w *watching) { w.outer.Stop() }
	fails := func(w *watching) { w.inner.Error(nil); w.inner.Stop() }
	opens := func(w *watching) { w.open() }
	for name, row := range map[string]struct {
		steps []func(*watching)
		want  time.Duration
	}{
		"one watch":                            {[]func(*watching){wait(4 * minute)}, 4 * minute},
		"it expires, and the next one follows": {[]func(*watching){wait(5 * minute), ends, opens, wait(minute)}, 6 * minute},
		"it expires a little early":            {[]func(*watching){wait(5*minute - time.Second), ends, opens, wait(minute)}, 6*minute - time.Second},
		"the next one follows a little later":  {[]func(*watching){wait(5 * minute), ends, wait(9 * time.Second), opens, wait(minute)}, 6*minute + 9*time.Second},
		"the next one follows late":            {[]func(*watching){wait(5 * minute), ends, wait(11 * time.Second), opens, wait(minute)}, minute},
		"it has just expired":                  {[]func(*watching){wait(5 * minute), ends, wait(9 * time.Second)}, 5*minute + 9*time.Second},
		"none follows":                         {[]func(*watching){wait(5 * minute), ends, wait(11 * time.Second)}, -1},
		"it breaks":                            {[]func(*watching){wait(4 * minute), ends}, -1},
		"it breaks, and the next one follows":  {[]func(*watching){wait(4 * minute), ends, opens, wait(minute)}, minute},
		"the informer breaks it off":           {[]func(*watching){wait(4 * minute), stops, opens, wait(minute)}, minute},
		"it fails when its time is over":       {[]func(*watching){wait(5 * minute), fails, opens, wait(minute)}, minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watching{health: &health{clock: clock.RealClock{}}}
				if w.quiet() != -1 {
					t.Error("healthy before the first watch")
				}
				w.open()
				for _, step := range row.steps {
					synctest.Wait()
					step(w)
				}
				synctest.Wait()
				if got := w.quiet(); got != row.want {
					t.Errorf("healthy for %s, want %s", got, row.want)
				}
				w.outer.Stop()
			})
		})
	}
}
