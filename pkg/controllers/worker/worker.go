// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// staleDelay is how soon a key is looked at again whose cache was behind.
const staleDelay = 100 * time.Millisecond

// Worker runs the sync of one controller.
type Worker struct {
	// Name of the controller, for logs and metrics.
	Name string
	// Queue of keys. It is shut down when Run ends.
	Queue Queue
	// Sync brings one key to what it should be. after, if positive, is when to look again without any event.
	Sync func(ctx context.Context, key cache.ObjectName) (after time.Duration, err error)
	// Crashed shows on the object that its sync panicked. Nil: it is only logged and counted.
	Crashed func(ctx context.Context, key cache.ObjectName)
	// Timeout bounds one sync. Zero: 30 s.
	Timeout time.Duration
	// Metrics may be nil.
	Metrics *Metrics
	// Clock measures durations.
	Clock clock.PassiveClock
}

// Run works off the queue until ctx ends, and returns once every started sync has finished. It first waits until each of the given
// handler registrations has seen its informer's first list.
func (w *Worker) Run(ctx context.Context, workers int, synced ...cache.DoneChecker) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), w.Name)
	ctx = klog.NewContext(ctx, logger)
	if !cache.WaitFor(ctx, "", synced...) {
		w.Queue.ShutDown()
		return context.Cause(ctx)
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for w.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.Queue.ShutDown()
	wg.Wait()
	return nil
}

func (w *Worker) next(ctx context.Context) bool {
	key, shutdown := w.Queue.Get()
	if shutdown {
		return false
	}
	defer w.Queue.Done(key)
	if ctx.Err() != nil {
		return true // draining: the next leader looks at everything
	}
	timeout := w.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	// A started sync runs to its end, so that a shutdown never cuts a plan in half. A lost lease does: its writes are fenced.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	start := w.Clock.Now()
	after, err := w.contained(ctx, key)
	w.Metrics.observe(w.Name, w.settle(ctx, key, after, err), w.Clock.Since(start))
	return true
}

// contained turns a panic of one key into an error of that key: other keys go on.
func (w *Worker) contained(ctx context.Context, key cache.ObjectName) (after time.Duration, err error) {
	defer func() {
		if r := recover(); r != nil {
			after, err = 0, panicError{value: r, stack: debug.Stack()}
		}
	}()
	return w.Sync(ctx, key)
}

// settle decides when the key is looked at again.
func (w *Worker) settle(ctx context.Context, key cache.ObjectName, after time.Duration, err error) outcome {
	logger := klog.FromContext(ctx)
	result := classify(err)
	switch result {
	case succeeded, terminating:
		w.Queue.Forget(key)
		if after > 0 {
			w.Queue.AddAfter(key, after)
		}
	case stale:
		w.Queue.AddAfter(key, staleDelay)
	case terminal:
		logger.V(2).Info("Waiting for a change", "key", key, "err", err)
		w.Queue.Forget(key)
		if after > 0 {
			w.Queue.AddAfter(key, after)
		}
	case conflicted:
		logger.V(4).Info("Lost a race, trying again", "key", key, "err", err)
		w.Queue.AddRateLimited(key)
	case panicked:
		utilruntime.HandleErrorWithContext(ctx, err, "Sync panicked, trying again later", "key", key)
		w.showCrash(ctx, key)
		w.Queue.AddRateLimited(key)
	default:
		if !cut(ctx, err) {
			utilruntime.HandleErrorWithContext(ctx, err, "Sync failed, trying again", "key", key)
		}
		w.Queue.AddRateLimited(key)
	}
	return result
}

// showCrash must not crash either.
func (w *Worker) showCrash(ctx context.Context, key cache.ObjectName) {
	if w.Crashed == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(nil, "Showing the panic panicked", "key", key, "panic", r)
		}
	}()
	w.Crashed(ctx, key)
}
