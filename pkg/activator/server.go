// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Drain is how a server stops.
type Drain struct {
	// Delay is how long it takes requests as before, while it is not ready any more: until everybody has heard that. It begins again when
	// no Workspace is led here any more, for which up to half of Timeout is spent.
	Delay time.Duration
	// Timeout is how long all that comes after the first Delay may take: above all, that requests which have started finish.
	Timeout time.Duration
}

// Serve serves HTTP/1.1 and unencrypted HTTP/2 until ctx ends, and then drains: nobody who came in time is turned away, held or not.
// It returns an error when it could not serve, or when requests have been cut off.
func (a *Activator) Serve(ctx context.Context, listener net.Listener, drain Drain) error {
	server := newServer(ctx, a)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	a.running.drain()
	klog.FromContext(ctx).Info("Draining", "delay", drain.Delay, "timeout", drain.Timeout)
	time.Sleep(drain.Delay)

	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain.Timeout)
	defer cancel()
	half, enough := context.WithTimeout(limited, drain.Timeout/2)
	defer enough()
	if a.waitUntilLeft(half, listener.Addr()) {
		time.Sleep(drain.Delay)
	}
	defer server.Close()
	if err := errors.Join(server.Shutdown(limited), a.running.wait(limited)); err != nil {
		return fmt.Errorf("wait %s for requests to end: %d are cut off: %w", drain.Timeout, a.running.count(), err)
	}
	return nil
}

// Draining says whether the activator is on its way out, and so not ready.
func (a *Activator) Draining() bool { return a.running.isDraining() }

func newServer(ctx context.Context, handler http.Handler) *http.Server {
	server := &http.Server{
		Handler:                      handler,
		ConnContext:                  withClient,
		ErrorLog:                     quietLog(ctx),
		Protocols:                    new(http.Protocols),
		MaxHeaderBytes:               64 << 10, // they stay in memory while a request is held
		ReadHeaderTimeout:            30 * time.Second,
		IdleTimeout:                  11 * time.Minute, // longer than load balancers keep an idle connection, so that they close it and not we
		DisableGeneralOptionsHandler: true,             // OPTIONS * is for the pod
		// No other timeouts: a request may take as long as client and pod like.
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     64 << 10, // see maxUploads
			MaxReceiveBufferPerConnection: 4<<20 - 1,
			SendPingTimeout:               time.Minute,
		},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

// running counts requests, upgraded connections too, which net/http does not wait for.
type running struct {
	mu       sync.Mutex
	n        int
	draining bool
	zero     chan struct{} // closed when n is 0 while somebody waits for that
}

func (r *running) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n += n; r.n == 0 && r.zero != nil {
		close(r.zero)
		r.zero = nil
	}
}

func (r *running) wait(ctx context.Context) error {
	r.mu.Lock()
	if r.n == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.zero == nil {
		r.zero = make(chan struct{})
	}
	zero := r.zero
	r.mu.Unlock()
	select {
	case <-zero:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *running) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

func (r *running) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

func (r *running) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}
