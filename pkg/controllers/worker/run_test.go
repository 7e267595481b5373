// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

func TestAStartedSyncFinishesOnShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished, cut bool
		var synced []cache.ObjectName
		w := &Worker{Sync: func(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
			synced = append(synced, key)
			<-time.After(10 * time.Second)
			finished, cut = true, ctx.Err() != nil
			return 0, nil
		}}
		stop := start(t, w, 1)
		w.Queue.Add(shop)
		synctest.Wait() // the sync is under way
		w.Queue.Add(ledger)

		began := time.Now()
		stop()
		if !finished || cut {
			t.Errorf("when Run returned the sync had finished: %v, and its context had ended: %v; want it to finish with a live context", finished, cut)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("Run returned after %s, want it to wait 10s for the sync", took)
		}
		if len(synced) != 1 {
			t.Errorf("synced %v, want nothing new to start after the shutdown", synced)
		}
		if !w.Queue.ShuttingDown() {
			t.Error("the queue still takes keys")
		}
	})
}

func TestASyncHasADeadline(t *testing.T) {
	for name, row := range map[string]struct{ timeout, want time.Duration }{
		"by default": {0, 30 * time.Second},
		"as set":     {5 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			recordErrors(t)
			synctest.Test(t, func(t *testing.T) {
				var took time.Duration
				w := &Worker{Timeout: row.timeout, Sync: func(ctx context.Context, _ cache.ObjectName) (time.Duration, error) {
					began := time.Now()
					<-ctx.Done()
					took = time.Since(began)
					return 0, Terminal(ctx.Err())
				}}
				stop := start(t, w, 1)
				w.Queue.Add(shop)
				pass(time.Minute)
				stop()
				if took != row.want {
					t.Errorf("cut after %s, want %s", took, row.want)
				}
			})
		})
	}
}

func TestRunBeginsWhenTheHandlersHaveSeenTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &checker{name: "first", done: make(chan struct{})}, &checker{name: "second", done: make(chan struct{})}
		var syncs int
		w := &Worker{Name: "test", Queue: NewQueue("test", clock.RealClock{}), Clock: clock.RealClock{}, Sync: func(context.Context, cache.ObjectName) (time.Duration, error) {
			syncs++
			return 0, nil
		}}
		w.Queue.Add(shop)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx, 2, first, second) }()

		close(second.done)
		pass(time.Minute)
		if syncs != 0 {
			t.Error("a key was synced while one handler had not seen its first list")
		}
		close(first.done)
		pass(time.Minute)
		if syncs != 1 {
			t.Errorf("%d syncs once both have, want 1", syncs)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestRunSaysThatItNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the lease went to another")
		w := &Worker{Name: "test", Queue: NewQueue("test", clock.RealClock{}), Clock: clock.RealClock{}, Sync: func(context.Context, cache.ObjectName) (time.Duration, error) {
			t.Error("a key was synced")
			return 0, nil
		}}
		w.Queue.Add(shop)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx, 1, &checker{name: "never", done: make(chan struct{})}) }()
		synctest.Wait()
		cancel(cause)
		if err := <-done; !errors.Is(err, cause) {
			t.Errorf("Run returned %v, want %v", err, cause)
		}
		if !w.Queue.ShuttingDown() {
			t.Error("the queue still takes keys, and its goroutines run on")
		}
	})
}

func TestKeysAreSyncedSideBySideButNeverOneTwiceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most := map[cache.ObjectName]int{}, 0
		w := &Worker{}
		w.Sync = func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
			mu.Lock()
			if running[key]++; running[key] > 1 {
				t.Errorf("%s is synced twice at a time", key)
			}
			if most = max(most, len(running)); key == shop {
				w.Queue.Add(shop) // an event while it is synced
			}
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			defer mu.Unlock()
			delete(running, key)
			return 0, nil
		}
		stop := start(t, w, 3)
		for i := range 10 {
			w.Queue.Add(cache.NewObjectName("bank", fmt.Sprint("shop-", i)))
		}
		w.Queue.Add(shop)
		pass(30 * time.Second)
		stop()
		if most != 3 {
			t.Errorf("at most %d keys at a time, want 3 with 3 workers", most)
		}
	})
}

// checker is a handler registration's.
type checker struct {
	name string
	done chan struct{}
}

func (c *checker) Name() string          { return c.name }
func (c *checker) Done() <-chan struct{} { return c.done }
