// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// DialFunc opens a connection, as [net.Dialer.DialContext] does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// WrapTransport returns a transport that sends a request only while the fence is open, and cancels it when the fence closes.
// A refused request fails with ErrFenced. It fits rest.Config.Wrap; use it together with [Fence.WrapDial].
func (f *Fence) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return &fencedTransport{fence: f, next: next}
}

// WrapDial returns a dialer whose connections send nothing once the fence has closed, and are then cut.
// A request that has passed WrapTransport may still wait for a connection, a stream or the scheduler while the process is stopped;
// this check stands right before the system call.
func (f *Fence) WrapDial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := f.Check(); err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		cut := context.AfterFunc(f.closed, func() { _ = conn.Close() })
		return &fencedConn{Conn: conn, fence: f, keep: cut}, nil
	}
}

type fencedTransport struct {
	fence *Fence
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *fencedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.fence.Check(); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as http.RoundTripper asks
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(t.fence.closed, func() { cancel(ErrFenced) })
	finish := func() {
		stop()
		cancel(nil)
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, ErrFenced) {
			err = cause
		}
		finish()
		return nil, err
	}
	// The request goes on until its answer has been read.
	resp.Body = &body{ReadCloser: resp.Body, finish: finish}
	return resp, nil
}

// WrappedRoundTripper lets client-go reach the transport below, to close its idle connections.
func (t *fencedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

type body struct {
	io.ReadCloser
	finish func()
}

func (b *body) Close() error {
	defer b.finish()
	return b.ReadCloser.Close()
}

type fencedConn struct {
	net.Conn
	fence *Fence
	keep  func() bool // stops the closing of the fence from closing the connection
}

func (c *fencedConn) Write(p []byte) (int, error) {
	if err := c.fence.Check(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *fencedConn) Close() error {
	c.keep()
	return c.Conn.Close()
}
