// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestTransport(t *testing.T) {
	arrived := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "ok")
		if r.URL.Path == "/stream" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	newClient := func(t *testing.T) (*Fence, *http.Client) {
		t.Helper()
		fence := NewFence(testingclock.NewFakeClock(time.Now()))
		transport := &http.Transport{DialContext: fence.WrapDial(new(net.Dialer).DialContext)}
		t.Cleanup(transport.CloseIdleConnections)
		return fence, &http.Client{Transport: fence.WrapTransport(transport)}
	}

	t.Run("sends while the fence is open", func(t *testing.T) {
		fence, client := newClient(t)
		fence.openForGood()
		for range 2 { // the second one over the same connection
			resp, err := client.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(resp.Body)
			if err != nil || string(content) != "ok" {
				t.Errorf("got %q, %v", content, err)
			}
			_ = resp.Body.Close()
			<-arrived
		}
	})
	t.Run("refuses before it opens and after it has closed", func(t *testing.T) {
		fence, client := newClient(t)
		for range 2 {
			body := &closable{Reader: strings.NewReader("x")}
			err := fails(client.Post(server.URL, "", body))
			if !errors.Is(err, ErrFenced) || !body.closed {
				t.Errorf("got %v, body closed: %t", err, body.closed)
			}
			fence.openForGood()
			fence.seal()
		}
		if len(arrived) > 0 {
			t.Error("the server saw a request")
		}
	})
	t.Run("cancels a request that is under way", func(t *testing.T) {
		fence, client := newClient(t)
		fence.openForGood()
		go func() {
			<-arrived
			fence.seal()
		}()
		if err := fails(client.Get(server.URL + "/slow")); !errors.Is(err, ErrFenced) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancels an answer that is under way", func(t *testing.T) {
		fence, client := newClient(t)
		fence.openForGood()
		resp, err := client.Get(server.URL + "/stream")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		<-arrived
		fence.seal()
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the answer ended without an error")
		}
	})
	t.Run("keeps the caller's own cancellation", func(t *testing.T) {
		fence, client := newClient(t)
		fence.openForGood()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/slow", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := fails(client.Do(req)); !errors.Is(err, context.Canceled) || errors.Is(err, ErrFenced) {
			t.Errorf("got %v", err)
		}
	})
}

// A request that is over must leave nothing behind in the fence, which lives as long as the process.
func TestTransportLetsGoOfARequestThatIsOver(t *testing.T) {
	fence := NewFence(testingclock.NewFakeClock(time.Now()))
	fence.openForGood()
	var sent *http.Request
	var failure error
	transport := fence.WrapTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
		sent = req
		return &http.Response{Body: http.NoBody}, failure
	}))
	req := httptest.NewRequest(http.MethodGet, "/", nil)

	resp, err := transport.RoundTrip(req)
	if err != nil || sent.Context().Err() != nil {
		t.Fatalf("got %v, and the request was cancelled before its answer was read: %v", err, sent.Context().Err())
	}
	_ = resp.Body.Close()
	if sent.Context().Err() == nil {
		t.Error("after the answer was read, the request is still held")
	}
	failure = errors.New("failed")
	if err := fails(transport.RoundTrip(req)); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if sent.Context().Err() == nil {
		t.Error("after a failure, the request is still held")
	}
}

// fails returns the error of a request that is expected to fail.
func fails(resp *http.Response, err error) error {
	if resp != nil {
		_ = resp.Body.Close()
	}
	return err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Close() error {
	c.closed = true
	return nil
}

// A process that is stopped between the check of the transport and the system call must not send when it is resumed.
func TestDialedConnectionSendsNothingOnceItsTimeIsUp(t *testing.T) {
	now := time.Now()
	c := testingclock.NewFakeClock(now)
	fence := NewFence(c)
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	dial := fence.WrapDial(func(context.Context, string, string) (net.Conn, error) { return ours, nil })

	if _, err := dial(t.Context(), "tcp", "x"); !errors.Is(err, ErrFenced) {
		t.Errorf("dialing before the fence is open: got %v", err)
	}
	fence.extend(now.Add(time.Second))
	conn, err := dial(t.Context(), "tcp", "x")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = conn.Write([]byte("x")) }()
	if _, err := theirs.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c.Step(time.Second)
	if _, err := conn.Write([]byte("x")); !errors.Is(err, ErrFenced) {
		t.Errorf("writing after its time: got %v", err)
	}
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is not cut: got %v", err)
	}
	if _, err := dial(t.Context(), "tcp", "x"); !errors.Is(err, ErrFenced) {
		t.Errorf("dialing after its time: got %v", err)
	}
}

func TestConnectionThatIsClosedIsLetGo(t *testing.T) {
	fence := NewFence(testingclock.NewFakeClock(time.Now()))
	fence.openForGood()
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	counted := &countedConn{Conn: ours}
	dial := fence.WrapDial(func(context.Context, string, string) (net.Conn, error) { return counted, nil })
	conn, err := dial(t.Context(), "tcp", "x")
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if conn.(*fencedConn).keep() {
		t.Error("the fence still holds a closed connection")
	}
	if counted.closed != 1 {
		t.Errorf("closed %d times", counted.closed)
	}
}

type countedConn struct {
	net.Conn
	closed int
}

func (c *countedConn) Close() error {
	c.closed++
	return c.Conn.Close()
}
