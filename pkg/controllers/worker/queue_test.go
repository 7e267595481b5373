// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

func TestBackoffGrowsWithJitterWithinBounds(t *testing.T) {
	recordErrors(t)
	synctest.Test(t, func(t *testing.T) {
		times := map[cache.ObjectName][]time.Time{}
		w := &Worker{Sync: func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
			times[key] = append(times[key], time.Now())
			return 0, errOrdinary
		}}
		stop := start(t, w, 1)
		w.Queue.Add(shop)
		w.Queue.Add(ledger)
		pass(2 * time.Hour)
		stop()

		for key, at := range times {
			want := 50 * time.Millisecond
			for i := 1; i < len(at); i++ {
				if waited := at[i].Sub(at[i-1]); waited < want || waited > want+want/10 {
					t.Errorf("%s: retry %d after %s, want %s and at most a tenth more", key, i, waited, want)
				}
				want = min(2*want, 5*time.Minute)
			}
			if len(at) < 20 {
				t.Errorf("%s: %d tries in two hours, want it never to be given up", key, len(at))
			}
		}
		apart := 0
		for i := range min(len(times[shop]), len(times[ledger])) {
			if times[shop][i].Sub(times[ledger][i]).Abs() > time.Millisecond {
				apart++
			}
		}
		if apart < 10 {
			t.Errorf("keys that failed together came back together but for %d times", apart)
		}
	})
}

func TestBackoffBeginsAnewAfterASuccess(t *testing.T) {
	recordErrors(t)
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		w := &Worker{}
		w.Sync = func(context.Context, cache.ObjectName) (time.Duration, error) {
			if at = append(at, time.Now()); len(at) == 6 {
				return time.Minute, nil
			}
			return 0, errOrdinary
		}
		stop := start(t, w, 1)
		w.Queue.Add(shop)
		pass(time.Minute + 5*time.Second)
		stop()
		if len(at) < 8 {
			t.Fatalf("%d tries, want more", len(at))
		}
		if waited := at[7].Sub(at[6]); waited < 50*time.Millisecond || waited > 55*time.Millisecond {
			t.Errorf("the first failure after a success waits %s, want 50 to 55ms", waited)
		}
	})
}

// An event during the backoff is looked at at once: a user who fixed something does not wait for it.
func TestAnEventDoesNotWaitForTheBackoff(t *testing.T) {
	recordErrors(t)
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		w := &Worker{Sync: func(context.Context, cache.ObjectName) (time.Duration, error) {
			at = append(at, time.Now())
			return 0, errOrdinary
		}}
		stop := start(t, w, 1)
		w.Queue.Add(shop)
		pass(time.Hour)
		event := time.Now()
		w.Queue.Add(shop)
		synctest.Wait()
		stop()
		if last := at[len(at)-1]; !last.Equal(event) {
			t.Errorf("the event at %s was looked at at %s", event, last)
		}
	})
}
