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
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

func TestFence(t *testing.T) {
	now := time.Now()
	ttl := 12 * time.Second
	for name, test := range map[string]struct {
		prepare func(*Fence, *testingclock.FakeClock)
		open    bool
		fresh   bool
		gone    bool // closed for good
	}{
		"has not opened yet": {
			prepare: func(*Fence, *testingclock.FakeClock) {},
		},
		"is open until its time": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				c.Step(ttl - 1)
			},
			open: true, fresh: true,
		},
		"is closed at its time, before any timer has fired": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				c.Step(ttl)
			},
			gone: true,
		},
		"is extended": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				c.Step(ttl - 1)
				f.extend(now.Add(2 * ttl))
				c.Step(ttl)
			},
			open: true, fresh: true,
		},
		"a renewal that comes too late does not open it again": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				c.Step(ttl)
				f.extend(now.Add(2 * ttl))
			},
			gone: true,
		},
		"a first renewal that took too long does not open it": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				c.Step(ttl)
				f.extend(now.Add(ttl))
			},
			gone: true,
		},
		"is sealed while the lease is still ours": {
			prepare: func(f *Fence, _ *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				f.seal()
			},
			fresh: true, gone: true,
		},
		"a renewal does not open a sealed one": {
			prepare: func(f *Fence, _ *testingclock.FakeClock) {
				f.seal()
				f.extend(now.Add(ttl))
			},
			gone: true,
		},
		"stays open without a lease": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.openForGood()
				c.Step(1000 * time.Hour)
			},
			open: true, fresh: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testingclock.NewFakeClock(now)
			f := NewFence(c)
			test.prepare(f, c)
			if err := f.Check(); (err == nil) != test.open || err != nil && !errors.Is(err, ErrFenced) {
				t.Errorf("Check returned %v, want open %t", err, test.open)
			}
			if got := f.fresh(); got != test.fresh {
				t.Errorf("fresh is %t", got)
			}
			if err := f.mayWriteLease(); (err == nil) == test.gone {
				t.Errorf("mayWriteLease returned %v", err)
			}
			select {
			case <-f.Done():
				if !test.gone {
					t.Error("Done is closed")
				}
			default:
				if test.gone {
					t.Error("Done is not closed")
				}
			}
		})
	}
}

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
			_, err := client.Post(server.URL, "", body)
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
		if _, err := client.Get(server.URL + "/slow"); !errors.Is(err, ErrFenced) {
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
		if _, err := client.Do(req); !errors.Is(err, context.Canceled) || errors.Is(err, ErrFenced) {
			t.Errorf("got %v", err)
		}
	})
}

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

func TestWatchClosesTheFenceWithoutAnyRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fence := NewFence(clock.RealClock{})
		start := time.Now()
		fence.extend(start.Add(12 * time.Second))
		go fence.watch()
		<-time.After(10 * time.Second)
		fence.extend(start.Add(22 * time.Second))
		<-fence.Done()
		if took := time.Since(start); took != 22*time.Second {
			t.Errorf("closed after %s, want 22s", took)
		}
	})
}
