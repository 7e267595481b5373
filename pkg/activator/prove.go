// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"net"
	"time"
)

// How endpoints are dialled before requests go there. The first try comes at once, later ones back off.
const (
	dialTimeout = time.Second
	firstRedial = 20 * time.Millisecond
	lastRedial  = 500 * time.Millisecond
)

// prove dials the endpoints that have not been, each by one goroutine, whatever the number of those who wait.
func (h *holds) prove(b *backend) {
	for address, e := range b.endpoints {
		if !e.proven && !e.proving {
			e.proving = true
			go h.proveOne(b, address, e)
		}
	}
}

// proveOne dials until it works, the endpoint is gone, or nobody waits any more.
func (h *holds) proveOne(b *backend, address string, e *endpoint) {
	for delay := firstRedial; ; delay = min(2*delay, lastRedial) {
		ctx, cancel := context.WithTimeout(context.Background(), dialTimeout) // no request's: it is for all of them
		err := h.dial(ctx, address)
		cancel()
		if h.proved(b, address, e, err == nil) {
			return
		}
		time.Sleep(delay)
	}
}

// proved notes how a dial went and says whether to stop.
func (h *holds) proved(b *backend, address string, e *endpoint, ok bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	current := b.endpoints[address] == e
	if !ok && current && b.waiting > 0 {
		return false
	}
	e.proving, e.proven = false, ok
	if ok && current {
		if !b.coldSince.IsZero() {
			h.metrics.awake(time.Since(b.coldSince))
			b.coldSince = time.Time{}
		}
		b.tell()
	}
	return true
}

// dialOnce connects and hangs up again.
func dialOnce(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
