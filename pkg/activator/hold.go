// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Why a request is not held any longer, or was not at all.
var (
	errFull     = errors.New("too many requests wait already")
	errFullHere = errors.New("too many requests wait for this Workspace already")
	errGone     = errors.New("the Workspace was deleted")
	errDeadline = errors.New("the Workspace did not become ready in time")
	errStarting = errors.New("the Workspace is starting, and the client does not wait")
)

const (
	// rewake is how long a wake may go unheard before it is asked for again.
	rewake = 10 * time.Second
	// watchEvery is how often a held request looks whether its client is still there and its Workspace still asleep.
	watchEvery = 500 * time.Millisecond
)

// holds is where requests wait for a pod. It knows the endpoints of every Workspace, and which of them can be dialled.
type holds struct {
	maxWaiting             int // of all Workspaces together
	maxWaitingForWorkspace int
	dial                   func(ctx context.Context, address string) error
	metrics                *proxyMetrics

	mu       sync.Mutex
	waiting  int
	backends map[cache.ObjectName]*backend // by headless Service
}

// backend is what is known of the pods of one Workspace. It is kept while there are any, and after a wake until the Workspace goes.
type backend struct {
	waiting   int
	endpoints map[string]*endpoint // the Ready ones, by address
	order     []string             // their addresses, sorted
	next      int                  // whose turn it is
	changed   chan struct{}        // closed when there is news for those who wait; nil when nobody does
	coldSince time.Time            // the first wake; zero while there are endpoints
	wokenAt   time.Time            // the last wake; zero while there are endpoints
	gone      bool
}

// endpoint is a pod that is Ready. A pod can be Ready before its node, or the one that asks, can route to it; so nothing is sent there
// before it was dialled, and that is done once for all who wait.
type endpoint struct {
	proven  bool
	proving bool
}

// waiter is what holds needs to know of a request that it holds.
type waiter struct {
	// deadline is until when it waits.
	deadline time.Time
	// refused is why it cannot wait at all. Nil: it can.
	refused error
	// wake asks for a wake. It is called for the first that waits, and again if that stays unheard for long.
	wake func()
	// asleep says whether the wake has not been heard yet.
	asleep func() bool
	// present returns an error when the client is gone. It is looked at from time to time; nil for a client whose going ends the context.
	present func() error
}

func newHolds(config Config, dial func(ctx context.Context, address string) error, metrics *proxyMetrics) *holds {
	return &holds{
		maxWaiting: config.MaxHeld, maxWaitingForWorkspace: config.MaxHeldPerWorkspace, dial: dial, metrics: metrics,
		backends: map[cache.ObjectName]*backend{},
	}
}

// acquire returns the address of a pod, whose turn it is. If there is none it waits until there is one, its deadline passes, or ctx ends.
// cold says whether at some moment no pod was Ready.
func (h *holds) acquire(ctx context.Context, key cache.ObjectName, w waiter) (address string, cold bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.backend(key)
	if address, ok := b.pick(); ok {
		return address, false, nil
	}
	cold = len(b.order) == 0
	switch {
	case w.refused != nil && (cold || !errors.Is(w.refused, errStarting)):
		err = w.refused
	case h.waiting >= h.maxWaiting:
		err = errFull
	case b.waiting >= h.maxWaitingForWorkspace:
		err = errFullHere
	}
	h.wake(b, w) // also when it is full
	if err != nil {
		return "", cold, err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, w.deadline, errDeadline)
	defer cancel()
	h.enter(b, 1)
	defer h.enter(b, -1)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if b.gone {
			return "", cold, errGone
		}
		if address, ok := b.pick(); ok {
			return address, cold, nil
		}
		cold = cold || len(b.order) == 0
		h.prove(b)
		if err := h.wait(ctx, b, tick.C, w); err != nil {
			return "", cold, err
		}
		h.wake(b, w)
	}
}

// wait returns when there is news, or a moment has passed. The lock is not held meanwhile.
func (h *holds) wait(ctx context.Context, b *backend, tick <-chan time.Time, w waiter) error {
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	changed := b.changed
	h.mu.Unlock()
	defer h.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-tick:
		if w.present != nil {
			return w.present()
		}
	}
	return nil
}

// wake asks for a wake if no pod is Ready: once, and again while that stays unheard. The lock is held, so the callbacks must be quick.
func (h *holds) wake(b *backend, w waiter) {
	if len(b.order) > 0 || b.gone {
		return
	}
	now := time.Now()
	if !b.wokenAt.IsZero() && (now.Sub(b.wokenAt) < rewake || !w.asleep()) {
		return
	}
	if b.coldSince.IsZero() || b.waiting == 0 {
		b.coldSince = now
	}
	b.wokenAt = now
	w.wake()
}

// enter counts those who wait.
func (h *holds) enter(b *backend, n int) {
	h.waiting += n
	b.waiting += n
	h.metrics.heldRequests(h.waiting)
}

// suspect says that an endpoint could not be dialled. It is out of turn until it can.
func (h *holds) suspect(key cache.ObjectName, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.backend(key).endpoints[address]; e != nil {
		e.proven = false
	}
}

// set replaces the Ready endpoints of a Workspace.
func (h *holds) set(key cache.ObjectName, addresses []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(addresses) == 0 && h.backends[key] == nil {
		return
	}
	b := h.backend(key)
	endpoints := make(map[string]*endpoint, len(addresses))
	for _, address := range addresses {
		if endpoints[address] = b.endpoints[address]; endpoints[address] == nil {
			endpoints[address] = &endpoint{}
		}
	}
	if len(addresses) == 0 && b.waiting == 0 && b.wokenAt.IsZero() {
		b.endpoints = nil // for who still dials one
		delete(h.backends, key)
		return
	}
	b.endpoints, b.order = endpoints, slices.Compact(slices.Sorted(slices.Values(addresses)))
	if len(b.order) > 0 {
		b.wokenAt = time.Time{}
	}
	if b.waiting > 0 {
		h.prove(b)
	} else {
		b.coldSince = time.Time{} // nobody measures how long it took
	}
}

// forget drops a Workspace that was deleted. Those who wait for it are told.
func (h *holds) forget(key cache.ObjectName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.backends[key]; b != nil {
		delete(h.backends, key)
		b.gone = true
		b.tell()
	}
}

func (h *holds) backend(key cache.ObjectName) *backend {
	b := h.backends[key]
	if b == nil {
		b = &backend{}
		h.backends[key] = b
	}
	return b
}

// pick returns the next endpoint in turn that can be dialled.
func (b *backend) pick() (string, bool) {
	for range b.order {
		address := b.order[b.next%len(b.order)]
		b.next = (b.next + 1) % len(b.order)
		if b.endpoints[address].proven {
			return address, true
		}
	}
	return "", false
}

// tell wakes those who wait.
func (b *backend) tell() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}
