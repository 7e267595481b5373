// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// FR-49: two hours of each kind of outage, in which 300 Workspaces change, then recovery.
func TestOutage(t *testing.T) {
	const (
		workspaces = 300
		outage     = 2 * time.Hour
	)
	large := strings.Repeat("x", 10<<20)
	for name, row := range map[string]struct {
		begin func(w *world)
		rate  int // requests per kept endpoint in the outage, at most
		beats int
		once  bool // nothing was handed to the network: each Workspace is reported once
	}{
		"refuses": {
			begin: func(w *world) { w.dial = func() error { return errors.New("connection refused") } },
			rate:  40, beats: 480, once: true,
		},
		"drops packets": {
			begin: func(w *world) { w.dial = func() error { return nil } },
			rate:  40, beats: 480, once: true,
		},
		"hangs": {
			begin: func(w *world) { w.hang = make(chan struct{}) },
			rate:  40, beats: 480,
		},
		"answers 429": {
			begin: func(w *world) { w.answer = w.refuse(http.StatusTooManyRequests, "Retry-After", "120") },
			rate:  61, beats: 61,
		},
		"answers 429 with a date far away": {
			begin: func(w *world) {
				w.answer = w.refuse(http.StatusTooManyRequests, "Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT")
			},
			rate: 9, beats: 9,
		},
		"answers 503": {
			begin: func(w *world) { w.answer = w.refuse(http.StatusServiceUnavailable) },
			rate:  40, beats: 480,
		},
		"answers 500": {
			begin: func(w *world) { w.answer = w.refuse(http.StatusInternalServerError) },
			rate:  40, beats: 480,
		},
		"redirects": {
			begin: func(w *world) { w.answer = w.refuse(http.StatusTemporaryRedirect, "Location", "/elsewhere") },
			rate:  40, beats: 480,
		},
		"answers 500 and 10 MB": {
			begin: func(w *world) {
				w.answer = func(rw http.ResponseWriter, _ *http.Request) bool {
					rw.WriteHeader(http.StatusInternalServerError)
					_, _ = io.WriteString(rw, large)
					return true
				}
			},
			rate: 40, beats: 480,
		},
		"stores, and the answer is lost": {
			begin: func(w *world) {
				w.answer = func(_ http.ResponseWriter, r *http.Request) bool {
					w.store(r)
					panic(http.ErrAbortHandler)
				}
			},
			rate: 40, beats: 480,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, clustercontrol.SenderOptions{OutboxDir: t.TempDir()}, func(t *testing.T, w *world) {
				w.set(func() { row.begin(w) })
				memory := uint64(0)
				var slots int
				for beat := range int(outage / clustercontrol.BeatInterval) {
					before := time.Now()
					for i := beat % 20; i < workspaces; i += 20 {
						w.sender.Status(status(fmt.Sprint("w", i), strconv.Itoa(beat)))
					}
					w.sender.Health([]clustercontrol.NodeReport{{Node: strconv.Itoa(beat)}})
					if beat%20 == 0 {
						slots++
						records := make([]clustercontrol.UsageRecord, workspaces)
						for i := range records {
							records[i] = usage(fmt.Sprint("w", i), before.UTC())
						}
						w.sender.Metering(records)
						w.sender.Register(node(clustercontrol.ActionRegister, fmt.Sprint("n", beat%3)))
					}
					if !time.Now().Equal(before) {
						t.Fatal("handing a record over took time")
					}
					pass(clustercontrol.BeatInterval)
					if beat == 100 {
						memory = heap()
					}
				}
				w.checkRate(row.rate, row.beats)
				if now := heap(); now > memory+20<<20 {
					t.Errorf("memory grew from %d to %d", memory, now)
				}
				if n := runtime.NumGoroutine(); n > 100 {
					t.Errorf("%d goroutines", n)
				}
				recovered := time.Now()
				w.set(func() {
					w.answer, w.dial = nil, nil
					if w.hang != nil {
						close(w.hang)
						w.hang = nil
					}
				})
				for beat := range 80 { // 20 minutes: longer than any Retry-After
					w.sender.Health([]clustercontrol.NodeReport{{Node: fmt.Sprint("after ", beat)}})
					pass(clustercontrol.BeatInterval)
				}
				w.checkRecovery(workspaces, slots, int(outage/clustercontrol.BeatInterval), row.once)
				if n := w.count(recovered, ""); n > 80+60 {
					t.Errorf("%d requests after the recovery", n)
				}
				if n := len(w.logged.with("Cluster Control")); n != 2 {
					t.Errorf("%d lines in the log: %q", n, w.logged.text)
				}
				if n := len(w.changes); n != 2 || !strings.HasPrefix(w.changes[0], "false ") || !strings.HasPrefix(w.changes[1], "true ") {
					t.Errorf("%d changes were told: %q", n, w.changes)
				}
				if w.value("reachable") != 1 || w.value("queued_bytes") != 0 || w.value("dropped_total", "reason=no_room") != 0 {
					t.Error("the metrics say something else")
				}
			})
		})
	}
}

// checkRate looks at what was attempted in the outage.
func (w *world) checkRate(rate, beats int) {
	w.t.Helper()
	for _, endpoint := range []string{"register", "metering", "workspace-status"} {
		if n := w.value("requests_total", "endpoint="+endpoint); n > float64(rate) || n < 5 {
			w.t.Errorf("%s was tried %.0f times, want at most %d", endpoint, n, rate)
		}
	}
	if n := w.value("requests_total", "endpoint=node-health"); n > float64(beats) || n < 5 {
		w.t.Errorf("%.0f beats were tried, want at most %d", n, beats)
	}
}

// checkRecovery looks at what the server has in the end.
func (w *world) checkRecovery(workspaces, slots, beats int, once bool) {
	w.t.Helper()
	keys := map[string]int{}
	for _, key := range w.records("metering", "idempotency_key") {
		keys[key]++
	}
	if len(keys) != workspaces*slots {
		w.t.Errorf("%d usage records arrived, want %d", len(keys), workspaces*slots)
	}
	for key, n := range keys {
		if n != 1 {
			w.t.Errorf("%s arrived %d times", key, n)
		}
	}
	names, phases := w.records("workspace-status", "workspace"), w.records("workspace-status", "phase")
	times, last := map[string]int{}, map[string]string{}
	for i, name := range names {
		times[name]++
		last[name] = phases[i]
	}
	for i := range workspaces {
		name := fmt.Sprint("w", i)
		if want := strconv.Itoa(beats - 20 + i%20); last[name] != want {
			w.t.Fatalf("%s is last known as %s, want %s", name, last[name], want)
		}
		if times[name] > 2 || once && times[name] > 1 { // that of the frozen envelope, and the newest
			w.t.Errorf("%s was reported %d times", name, times[name])
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A process that ends in an outage leaves an envelope that the next one sends first, byte by byte.
func TestFrozenEnvelopeOutlivesTheProcess(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{OutboxDir: t.TempDir()}, func(t *testing.T, w *world) {
		w.set(func() {
			w.answer = func(_ http.ResponseWriter, r *http.Request) bool {
				w.store(r)
				panic(http.ErrAbortHandler)
			}
		})
		slot := time.Now().UTC()
		w.sender.Metering([]clustercontrol.UsageRecord{usage("u1", slot)})
		pass(10 * time.Second)
		w.sender.Metering([]clustercontrol.UsageRecord{usage("u2", slot)})
		w.end()
		w.set(func() { w.answer = nil })
		restarted := time.Now()
		w.start()
		pass(time.Minute)
		same(t, "usage", w.records("metering", "uid"), []string{"u1", "u2"})
		w.set(func() {
			messages := w.envelopes["metering"]
			if messages[0].InstanceID == messages[1].InstanceID || messages[0].Sequence != 1 || messages[1].Sequence != 1 {
				t.Errorf("envelopes %s/%d and %s/%d", messages[0].InstanceID, messages[0].Sequence, messages[1].InstanceID, messages[1].Sequence)
			}
		})
		if n := w.count(restarted.Add(-1), "metering"); n != 2 || w.value("requests_total", "outcome=duplicate") != 1 {
			t.Errorf("%d requests, %f of them duplicates", n, w.value("requests_total", "outcome=duplicate"))
		}
	})
}

// Else a crash after the server has taken an envelope would send its records once more, in another one.
func TestEnvelopeIsOnTheDiskBeforeItIsSent(t *testing.T) {
	dir := t.TempDir()
	inWorld(t, clustercontrol.SenderOptions{OutboxDir: dir}, func(t *testing.T, w *world) {
		looked := false
		w.set(func() {
			w.answer = func(_ http.ResponseWriter, r *http.Request) bool {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				journal, err := os.ReadFile(filepath.Join(dir, "outbox.journal"))
				if err != nil || !bytes.Contains(journal, body) {
					t.Errorf("the journal does not have what was sent (%v)", err)
				}
				looked = true
				return true
			}
		})
		w.sender.Metering([]clustercontrol.UsageRecord{usage("u", time.Now().UTC())})
		pass(lingering)
		if !looked {
			t.Error("nothing was sent")
		}
	})
}

// lingering is the time from a record to its envelope. The outbox's own loop writes a tenth of a second after a change, so what is in the
// journal right then was written by the sender.
const lingering = 500 * time.Millisecond

// Ten million bytes of good news are good news, and are not read.
func TestLargeAnswerIsNotRead(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		written := 0
		w.set(func() {
			w.answer = func(rw http.ResponseWriter, r *http.Request) bool {
				w.store(r)
				for written < 10<<20 {
					n, err := io.WriteString(rw, strings.Repeat("x", 1<<10))
					written += n
					if err != nil {
						break
					}
				}
				return true
			}
		})
		w.sender.Status(status("web", "Ready"))
		pass(time.Second)
		same(t, "statuses", w.records("workspace-status", "phase"), []string{"Ready"})
		w.set(func() {
			if written > 100<<10 {
				t.Errorf("the client has read about %d bytes", written)
			}
		})
	})
}

// An outbox that is full gives up the oldest usage, and says so once.
func TestFullOutbox(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{OutboxMaxBytes: 8 << 20}, func(t *testing.T, w *world) {
		w.set(func() { w.dial = func() error { return errors.New("connection refused") } })
		pass(time.Second)
		w.sender.Register(node(clustercontrol.ActionDeregister, "n1"))
		w.sender.Status(status("web", "Ready"))
		start := time.Now().UTC()
		const most = 30_000
		for i := range most {
			w.sender.Metering([]clustercontrol.UsageRecord{usage("u", start.Add(time.Duration(i)*5*time.Minute))})
		}
		pass(time.Minute)
		dropped := int(w.value("dropped_total", "endpoint=metering", "reason=no_room"))
		if dropped < most/4 || w.value("queued_bytes") > 3<<20 {
			t.Errorf("%d dropped, %f bytes wait", dropped, w.value("queued_bytes"))
		}
		if n := len(w.logged.with("outbox is full")); n != 1 {
			t.Errorf("said %d times", n)
		}
		w.set(func() { w.dial = nil })
		pass(10 * time.Minute)
		arrived := w.records("metering", "slot")
		if len(arrived) != most-dropped || arrived[len(arrived)-1] != clustercontrol.SlotName(start.Add((most-1)*5*time.Minute)) {
			t.Errorf("%d records arrived, %d were dropped", len(arrived), dropped)
		}
		same(t, "ids", w.records("register", "id"), []string{"n1"})
		same(t, "statuses", w.records("workspace-status", "phase"), []string{"Ready"})
	})
}

// Samples give way to everything else. Nothing is lost by that, so nothing is said and counted.
func TestSamplesInAFullOutbox(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{OutboxMaxBytes: 8 << 20}, func(t *testing.T, w *world) {
		w.set(func() { w.dial = func() error { return errors.New("connection refused") } })
		for i := range 100 {
			w.sender.SampledReadings().Put(strconv.Itoa(i), make([]byte, 50_000))
			w.sender.SampledLives().Put(strconv.Itoa(i), make([]byte, 5_000))
		}
		for i := range 5_000 {
			w.sender.Metering([]clustercontrol.UsageRecord{usage("u", time.Unix(int64(i)*300, 0))})
		}
		pass(time.Minute)
		readings, lives := maps.Collect(w.sender.SampledReadings().All()), maps.Collect(w.sender.SampledLives().All())
		if n := len(readings); n < 10 || n > 40 || readings["99"] == nil || len(lives) != 100 {
			t.Errorf("%d readings are left, and %d lives", n, len(lives))
		}
		if n := len(w.logged.with("outbox is full")); n != 0 || w.value("dropped_total") != 0 {
			t.Errorf("said %d times, %f dropped", n, w.value("dropped_total"))
		}
		if len(w.sender.UnsentUsage()) != 5_000 {
			t.Errorf("%d records wait", len(w.sender.UnsentUsage()))
		}
	})
}

// A beat belongs to its 15 seconds.
func TestBeatsAreNeverQueued(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() { w.hang = make(chan struct{}) })
		for i := range 8 {
			w.sender.Health([]clustercontrol.NodeReport{{Node: strconv.Itoa(i)}})
			pass(clustercontrol.BeatInterval)
		}
		w.set(func() {
			close(w.hang)
			w.hang = nil
		})
		pass(time.Hour)
		same(t, "beats", w.records("node-health", "node"), []string{})
		w.sender.Health([]clustercontrol.NodeReport{{Node: "now"}})
		pass(time.Second)
		same(t, "beats", w.records("node-health", "node"), []string{"now"})
		if n := w.value("dropped_total", "endpoint=node-health"); n != 8 {
			t.Errorf("%f dropped", n)
		}
		if n := w.value("queued_bytes", "endpoint=node-health"); n != 0 {
			t.Errorf("%f bytes wait", n)
		}
	})
}
