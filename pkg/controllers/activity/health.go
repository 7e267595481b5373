// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// handover is how long there may be no watch between one that ended because its time was over and the next.
const handover = 10 * time.Second

// health tells since when one watch has followed the other without a gap in which activators could have been cut off as well. An informer
// does not tell: it begins again without a word, whether its watch has expired, as each does every few minutes, or broke.
type health struct {
	clock clock.PassiveClock

	mu    sync.Mutex // of what follows
	since time.Time  // zero: not healthy
	ended time.Time  // of the watch that expired last; zero: one is open
}

// healthySince is false while there is no watch.
func (h *health) healthySince() (time.Time, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	broken := h.since.IsZero() || !h.ended.IsZero() && h.clock.Since(h.ended) > handover
	return h.since, !broken
}

func (h *health) opened() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() || h.ended.IsZero() || h.clock.Since(h.ended) > handover {
		h.since = h.clock.Now()
	}
	h.ended = time.Time{}
}

func (h *health) closed(expired bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended = h.clock.Now(); !expired {
		h.since = time.Time{}
	}
}

// newLeaseInformer is the generated one, but that it reports to health.
func newLeaseInformer(kube kubernetes.Interface, h *health) cache.TypedSharedIndexInformer[*coordinationv1.Lease] {
	leases := kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return leases.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			inner, err := leases.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			return h.observe(inner, options.TimeoutSeconds), nil
		},
	}, kube)
	return cache.NewTypedSharedIndexInformer[*coordinationv1.Lease](cache.NewSharedIndexInformer(source, &coordinationv1.Lease{}, 0, cache.Indexers{}))
}

// observe passes on what a watch tells, and notes when it opens and ends. A watch that lasts as long as was asked for has expired.
func (h *health) observe(inner watch.Interface, timeoutSeconds *int64) watch.Interface {
	opened := h.clock.Now()
	h.opened()
	w := &observed{inner: inner, events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(w.events)
		failed := w.pump()
		lasted := h.clock.Since(opened)
		h.closed(!failed && timeoutSeconds != nil && lasted >= time.Duration(*timeoutSeconds)*time.Second-time.Second)
	}()
	return w
}

// observed is a watch whose end is noted.
type observed struct {
	inner   watch.Interface
	events  chan watch.Event
	once    sync.Once
	stopped chan struct{}
}

// pump passes events on until the watch ends, and says whether it ended with an error.
func (w *observed) pump() (failed bool) {
	defer w.inner.Stop()
	for event := range w.inner.ResultChan() {
		failed = event.Type == watch.Error
		select {
		case w.events <- event:
		case <-w.stopped:
			return failed
		}
	}
	return failed
}

// ResultChan is closed when the watch has ended.
func (w *observed) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch.
func (w *observed) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.inner.Stop()
}
