// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// polling is a poller in a world, and what it was given.
type polling struct {
	*clustercontrol.Poller
	taken []string // hashes
	err   error    // what taking returns
	asked []string // query and ETag of each request
}

func poll(t *testing.T, w *world, after int64) *polling {
	t.Helper()
	p := &polling{}
	p.Poller = clustercontrol.NewPoller(w.client, after, func(_ context.Context, batch clustercontrol.Batch) error {
		if p.err != nil {
			return p.err
		}
		for _, item := range batch.Items {
			p.taken = append(p.taken, item.BinaryHash)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return p
}

// serve answers a poll, and notes what was asked.
func (p *polling) serve(answer func(rw http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		p.asked = append(p.asked, r.URL.RawQuery+" "+r.Header.Get("If-None-Match"))
		answer(rw, r)
		return true
	}
}

func items(cursor int, hashes ...string) string {
	list := make([]string, len(hashes))
	for i, hash := range hashes {
		list[i] = fmt.Sprintf(`{"namespace":"bank","workspace":"web","phase":"restart_required","binary_hash":%q,"artifact_id":"a","version":"1"}`, hash)
	}
	return fmt.Sprintf(`{"cursor":%d,"items":[%s]}`, cursor, strings.Join(list, ","))
}

func TestPollMovesItsCursorOnceItemsAreTaken(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		p := poll(t, w, 5)
		w.set(func() {
			w.answer = p.serve(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("after") == "5" {
					_, _ = io.WriteString(rw, items(9, "h1", "h2", "h1"))
				} else {
					_, _ = io.WriteString(rw, items(9))
				}
			})
			p.err = errors.New("the cache is not there yet")
		})
		pass(30 * time.Second)
		if p.Cursor() != 5 || len(p.taken) != 0 {
			t.Fatalf("the cursor is %d before anything was taken", p.Cursor())
		}
		w.set(func() { p.err = nil })
		pass(time.Minute)
		same(t, "taken", p.taken, []string{"h1", "h2", "h1"})
		if p.Cursor() != 9 {
			t.Errorf("the cursor is %d", p.Cursor())
		}
		if last := p.asked[len(p.asked)-1]; last != "after=9 " {
			t.Errorf("asked %q", last)
		}
	})
}

func TestPollSendsTheTagOfItsCursorOnly(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		p := poll(t, w, 0)
		w.set(func() {
			w.answer = p.serve(func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("If-None-Match") == `"2"` {
					rw.WriteHeader(http.StatusNotModified)
					return
				}
				rw.Header().Set("ETag", `"2"`)
				if r.URL.Query().Get("after") == "0" {
					_, _ = io.WriteString(rw, items(2, "h1"))
				} else {
					_, _ = io.WriteString(rw, items(2))
				}
			})
		})
		pass(80 * time.Second)
		same(t, "taken", p.taken, []string{"h1"})
		w.set(func() {
			if len(p.asked) < 6 {
				t.Fatalf("asked %d times in 80 s", len(p.asked))
			}
			same(t, "asked", p.asked[:4], []string{"after=0 ", "after=2 ", `after=2 "2"`, `after=2 "2"`})
		})
		if w.value("requests_total", "outcome=not_modified") < 3 || w.value("reachable") != 1 {
			t.Error("the metrics say something else")
		}
	})
}

// Whatever the server answers: nothing is taken, the cursor stays, the rate falls, and one line says so.
func TestHostileServer(t *testing.T) {
	large := items(9, strings.Split(strings.Repeat("h ", 100_000), " ")...)
	for name, answer := range map[string]func(rw http.ResponseWriter, r *http.Request){
		"10 MB":         func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, large) },
		"HTML":          func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "<html>") },
		"empty":         func(http.ResponseWriter, *http.Request) {},
		"text cursor":   func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, `{"cursor":"9","items":[]}`) },
		"back":          func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, items(1, "h")) },
		"304 to no tag": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotModified) },
		"conflict":      func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusConflict) },
		"unauthorized":  func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) },
		"cut off": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(rw, items(9))
		},
		"never ends": func(rw http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := io.WriteString(rw, " "); err != nil {
					return
				}
				_ = http.NewResponseController(rw).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
				p := poll(t, w, 5)
				handle := p.serve(answer)
				w.set(func() {
					w.answer = func(rw http.ResponseWriter, r *http.Request) bool {
						w.mu.Unlock() // an answer may take its time
						defer w.mu.Lock()
						return handle(rw, r)
					}
				})
				pass(time.Hour)
				if len(p.taken) > 0 || p.Cursor() != 5 {
					t.Errorf("took %d items, the cursor is %d", len(p.taken), p.Cursor())
				}
				if n := w.count(time.Time{}, "deploy-status"); n < 5 || n > 25 {
					t.Errorf("%d requests in an hour", n)
				}
				if n := len(w.logged.with("not reachable")); n != 1 {
					t.Errorf("logged %q", w.logged.text)
				}
				w.set(func() {
					w.answer = p.serve(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, items(9, "good")) })
				})
				pass(6 * time.Minute)
				if p.Cursor() != 9 || len(p.taken) == 0 {
					t.Errorf("took %d items after that, the cursor is %d", len(p.taken), p.Cursor())
				}
			})
		})
	}
}

func TestPollHonoursRetryAfter(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() { w.answer = w.refuse(http.StatusServiceUnavailable, "Retry-After", "300") })
		start := time.Now()
		poll(t, w, 0)
		pass(299 * time.Second)
		if n := w.count(start.Add(-1), "deploy-status"); n != 1 {
			t.Errorf("%d requests in 299 s", n)
		}
		pass(62 * time.Second)
		if n := w.count(start.Add(-1), "deploy-status"); n != 2 {
			t.Errorf("%d requests in 361 s", n)
		}
	})
}

func TestUnusableItemsAreCountedAndLoggedOnce(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		cursor := 0
		p := poll(t, w, 0)
		w.set(func() {
			w.answer = p.serve(func(rw http.ResponseWriter, _ *http.Request) {
				cursor++
				_, _ = io.WriteString(rw, items(cursor, "", "good"))
			})
		})
		pass(65 * time.Second)
		if n := w.value("dropped_total", "endpoint=deploy-status", "reason=invalid"); int(n) != cursor-1 && int(n) != cursor || cursor < 5 {
			t.Errorf("%f items were counted in %d answers", n, cursor)
		}
		if n := len(w.logged.with("left out")); n != 1 {
			t.Errorf("logged %q", w.logged.text)
		}
		if len(p.taken) < 5 || p.taken[0] != "good" {
			t.Errorf("took %q", p.taken)
		}
	})
}
