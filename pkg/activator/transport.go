// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// maxUploads is how many requests with a body may wait on one HTTP/2 connection. Each can fill its window (64 KiB) with bytes that nobody
// reads yet, and all share the connection's (4 MiB): were that full, the connection's other requests would stand still, other tenants' too.
const maxUploads = 56

var errUploads = errors.New("too many uploads wait on this connection already")

// transport connects to pods, in the protocol that the client speaks.
type transport struct {
	http1, http2 *http.Transport
}

func newTransport() *transport {
	dialer := &net.Dialer{Timeout: 2 * dialTimeout, KeepAlive: 15 * time.Second}
	base := func() *http.Transport {
		return &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, network, address)
				if err != nil {
					return nil, &dialError{err}
				}
				return conn, nil
			},
			Protocols:             new(http.Protocols),
			DisableCompression:    true, // what the client did not ask for, it does not get
			ExpectContinueTimeout: time.Second,
			MaxIdleConnsPerHost:   128,
			// Shorter than any server keeps an idle connection (Node.js: 5 s): a request on one that the pod closes is lost.
			IdleConnTimeout: 4 * time.Second,
		}
	}
	t := &transport{http1: base(), http2: base()}
	t.http1.Protocols.SetHTTP1(true)
	t.http2.Protocols.SetUnencryptedHTTP2(true)
	t.http2.IdleConnTimeout = time.Minute // HTTP/2 says so before it closes a connection
	t.http2.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second}
	return t
}

func (t *transport) send(r *http.Request, major int) (*http.Response, error) {
	if major == 2 {
		return t.http2.RoundTrip(r)
	}
	return t.http1.RoundTrip(r)
}

// dialError is the one kind of failure after which a request can be sent again: nothing of it was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// forward is the proxy's http.RoundTripper. It waits for a pod, and sends the request there; if that pod cannot be reached, to the next.
func (a *Activator) forward(r *http.Request) (*http.Response, error) {
	p := passageOf(r.Context())
	w := waiter{
		deadline: p.arrived.Add(a.config.WakeDeadline),
		wake:     func() { a.wake(p) },
		asleep:   func() bool { return a.asleep(p) },
	}
	leave := p.waitWithBody(&w, r.Body != nil)
	defer leave()
	if p.starting {
		w.refused = errStarting
	}
	for {
		address, cold, err := a.holds.acquire(r.Context(), p.pods, w)
		if p.cold = p.cold || cold; p.cold {
			p.held = time.Since(p.arrived)
		}
		if err != nil {
			return nil, err
		}
		leave()
		attempt, target := r.WithContext(r.Context()), *r.URL
		target.Host = address
		attempt.URL = &target
		res, err := a.transport.send(attempt, p.major)
		if _, failed := errors.AsType[*dialError](err); !failed {
			return res, err
		}
		a.holds.suspect(p.pods, address)
		if time.Now().After(w.deadline) {
			return nil, errDeadline
		}
	}
}

func (a *Activator) wake(p *passage) {
	if p.sleeps {
		a.keeper.Wake(p.lease)
	}
}

// waitWithBody prepares to hold a request whose body nobody reads meanwhile. leave must be called when it is held no longer.
func (p *passage) waitWithBody(w *waiter, hasBody bool) (leave func()) {
	if !hasBody || p.client == nil {
		return func() {}
	}
	if p.major < 2 {
		// The server notices that a client has gone only once it has read the body. So the connection itself is asked.
		w.present = p.client.present
		return func() {}
	}
	if p.client.uploads.Add(1) > maxUploads {
		w.refused = errUploads
	}
	left := false
	return func() {
		if !left {
			left = true
			p.client.uploads.Add(-1)
		}
	}
}

// keepOpen is a body that survives a dial that fails: the transport closes what it could not send. The server closes it in the end.
type keepOpen struct{ io.Reader }

// Close implements io.Closer.
func (keepOpen) Close() error { return nil }
