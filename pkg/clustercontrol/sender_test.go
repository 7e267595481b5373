// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// inWorld runs a test in a bubble of its own time.
func inWorld(t *testing.T, options clustercontrol.SenderOptions, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, options)) })
}

// pass lets time pass, in the bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func status(name, phase string) clustercontrol.StatusRecord {
	return clustercontrol.StatusRecord{Namespace: "bank", Workspace: name, UID: types.UID(name), Phase: phase}
}

func node(action clustercontrol.Action, id string) clustercontrol.Registration {
	return clustercontrol.Registration{Kind: clustercontrol.KindNode, ID: id, Action: action}
}

func usage(uid string, slot time.Time) clustercontrol.UsageRecord {
	return clustercontrol.UsageRecord{
		IdempotencyKey: clustercontrol.IdempotencyKey("jkt", types.UID(uid), slot), Slot: clustercontrol.SlotName(slot), UID: types.UID(uid),
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func (w *world) refuse(status int, header ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			rw.Header().Set(header[i], header[i+1])
		}
		rw.WriteHeader(status)
		return true
	}
}

func TestRecordsArriveInOrderAndTogether(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		slot := time.Now().UTC()
		for i := range 20 {
			w.sender.Register(node(clustercontrol.ActionRegister, fmt.Sprint("n", i)))
			w.sender.Status(status("web", strconv.Itoa(i)))
		}
		w.sender.Metering([]clustercontrol.UsageRecord{usage("u1", slot), usage("u2", slot)})
		w.sender.Health([]clustercontrol.NodeReport{{Node: "n0"}, {Node: "n1"}})
		pass(time.Second)
		if ids := w.records("register", "id"); len(ids) != 20 || ids[0] != "n0" || ids[19] != "n19" {
			t.Errorf("registered %v", ids)
		}
		same(t, "statuses", w.records("workspace-status", "phase"), []string{"19"})
		same(t, "usage", w.records("metering", "uid"), []string{"u1", "u2"})
		same(t, "health", w.records("node-health", "node"), []string{"n0", "n1"})
		if n := w.count(time.Time{}, ""); n != 4 {
			t.Errorf("%d requests for one burst at four endpoints", n)
		}
		pass(24 * time.Hour)
		if n := w.count(time.Time{}, ""); n != 4 {
			t.Errorf("%d requests when nothing happens", n-4)
		}
		if w.value("reachable") != 1 || w.value("requests_total", "outcome=accepted") != 4 || w.value("queued_bytes")+w.value("queued_envelopes") != 0 {
			t.Error("the metrics say something else")
		}
		if got := w.value("last_success_timestamp_seconds", "endpoint=metering"); got != float64(slot.Add(time.Second).Unix()) && got != float64(slot.Unix()) {
			t.Errorf("the last success was at %f", got)
		}
	})
}

func TestManyRecordsAreManyEnvelopes(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() { w.dial = func() error { return errors.New("connection refused") } })
		slot := time.Now().UTC()
		var beat []clustercontrol.NodeReport
		for i := range 1203 {
			w.sender.Metering([]clustercontrol.UsageRecord{usage(strconv.Itoa(i), slot)})
			beat = append(beat, clustercontrol.NodeReport{Node: strconv.Itoa(i), Labels: map[string]string{"a": strings.Repeat("x", 5000)}})
		}
		w.set(func() { w.dial = nil })
		w.sender.Health(beat)
		pass(10 * time.Second)
		if got := w.records("metering", "uid"); len(got) != 1203 || got[1202] != "1202" {
			t.Errorf("%d records arrived", len(got))
		}
		if got := w.records("node-health", "node"); len(got) != 1203 || got[1202] != "1202" {
			t.Errorf("%d nodes arrived", len(got))
		}
		w.set(func() {
			for _, body := range w.bodies {
				if len(body) > 600<<10 {
					t.Errorf("a body of %d bytes", len(body))
				}
			}
			if n := len(w.envelopes["metering"]); n < 3 || n > 4 {
				t.Errorf("usage came in %d envelopes", n)
			}
		})
	})
}

func TestDeregistrationsAlwaysArrive(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		register, gone := clustercontrol.ActionRegister, clustercontrol.ActionDeregister
		for _, action := range []clustercontrol.Action{register, register, gone, register, gone, gone, register, register} {
			w.sender.Register(node(action, "n1"))
		}
		w.sender.Register(node(register, "n2"))
		w.sender.Register(node(gone, "n2"))
		if ids := fmt.Sprint(w.sender.UnsentRegistrations()); ids != "[{node n1}]" {
			t.Errorf("unsent: %s", ids)
		}
		pass(time.Second)
		same(t, "ids", w.records("register", "id"), []string{"n1", "n1", "n2"})
		same(t, "actions", w.records("register", "action"), []string{"deregister", "register", "deregister"})
	})
}

func TestOneUsageRecordASlot(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		slot := time.Now().UTC()
		first, second := usage("u", slot), usage("u", slot)
		first.PodSeconds, second.PodSeconds = 1, 2
		w.sender.Metering([]clustercontrol.UsageRecord{first, second})
		pass(time.Second)
		same(t, "usage", w.records("metering", "pod_seconds"), []string{"1"})
	})
}

// A new leader finds what an earlier term has left, and puts it right.
func TestUnsentStatusIsReplaced(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.sender.Status(status("a", "Ready"))
		w.sender.Status(status("b", "Ready"))
		unsent := w.sender.UnsentStatuses()
		if len(unsent) != 2 || unsent[0].Workspace != "a" || unsent[1].Phase != "Ready" {
			t.Fatalf("unsent: %+v", unsent)
		}
		unsent[0].Phase = "Terminating"
		w.sender.Status(unsent[0])
		pass(time.Second)
		same(t, "statuses", w.records("workspace-status", "phase"), []string{"Terminating", "Ready"})
		if unsent := w.sender.UnsentStatuses(); len(unsent) != 0 {
			t.Errorf("unsent, after they were sent: %+v", unsent)
		}
	})
}

// Who was not trusted at first tells anew what was refused. Another refusal says nothing about the rest.
func TestTrustedAfterAll(t *testing.T) {
	for status, want := range map[int]int{http.StatusUnauthorized: 1, http.StatusForbidden: 1, http.StatusBadRequest: 0} {
		told := 0
		inWorld(t, clustercontrol.SenderOptions{Trusted: func() { told++ }}, func(t *testing.T, w *world) {
			w.set(func() {
				w.answer = func(rw http.ResponseWriter, _ *http.Request) bool {
					rw.WriteHeader(status)
					return true
				}
			})
			beat := func() {
				w.sender.Health([]clustercontrol.NodeReport{{Node: "n1"}})
				pass(clustercontrol.BeatInterval)
			}
			beat()
			beat()
			if told != 0 {
				t.Errorf("%d: told while it is refused", status)
			}
			w.set(func() { w.answer = nil })
			beat()
			beat()
			if told != want {
				t.Errorf("%d: told %d times, want %d", status, told, want)
			}
		})
	}
}

// What may have been sent counts as well; only what surely was not can be taken back.
func TestUnsentUsage(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() {
			w.answer = func(rw http.ResponseWriter, _ *http.Request) bool {
				rw.WriteHeader(http.StatusInternalServerError)
				return true
			}
		})
		slot := time.Now().UTC()
		w.sender.Metering([]clustercontrol.UsageRecord{usage("frozen", slot)})
		pass(time.Second)
		w.sender.Metering([]clustercontrol.UsageRecord{usage("waits", slot), usage("taken-back", slot)})
		w.sender.ForgetUsage(usage("taken-back", slot).IdempotencyKey)
		w.sender.ForgetUsage(usage("frozen", slot).IdempotencyKey)
		var uids []string
		for _, r := range w.sender.UnsentUsage() {
			uids = append(uids, string(r.UID))
		}
		same(t, "unsent usage", uids, []string{"waits", "frozen"})
	})
}

// An endpoint that hangs is nobody else's business.
func TestBlockedEndpointBlocksNoOther(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() {
			w.answer = func(rw http.ResponseWriter, r *http.Request) bool {
				if strings.HasSuffix(r.URL.Path, "metering") {
					rw.WriteHeader(http.StatusInternalServerError)
					return true
				}
				return false
			}
		})
		w.sender.Metering([]clustercontrol.UsageRecord{usage("u", time.Now())})
		for i := range 60 {
			w.sender.Status(status("web", strconv.Itoa(i)))
			w.sender.Health([]clustercontrol.NodeReport{{Node: strconv.Itoa(i)}})
			pass(15 * time.Second)
		}
		if got := w.records("workspace-status", "phase"); len(got) != 60 {
			t.Errorf("%d statuses arrived", len(got))
		}
		if got := w.records("node-health", "node"); len(got) != 60 {
			t.Errorf("%d beats arrived", len(got))
		}
		if n := len(w.logged.with("Cluster Control")); n != 1 {
			t.Errorf("%d lines in the log: %q", n, w.logged.text)
		}
		if w.value("reachable") != 0 {
			t.Error("the metric says that all is well")
		}
	})
}

func TestRefusedIsDroppedCountedAndLoggedOnce(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() {
			w.answer = func(rw http.ResponseWriter, _ *http.Request) bool {
				rw.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(rw, "unknown cluster\nforged line")
				return true
			}
		})
		for i := range 5 {
			w.sender.Status(status("web", strconv.Itoa(i)))
			w.sender.Health([]clustercontrol.NodeReport{{Node: "n"}})
			pass(15 * time.Second)
		}
		if n := w.value("dropped_total", "endpoint=workspace-status", "reason=refused"); n != 5 {
			t.Errorf("%f dropped", n)
		}
		if n := w.value("dropped_total", "endpoint=node-health", "reason=refused"); n != 5 {
			t.Errorf("%f dropped", n)
		}
		for _, endpoint := range []string{"workspace-status", "node-health"} {
			if lines := w.logged.with(`endpoint="` + endpoint); len(lines) != 1 || !strings.Contains(lines[0], "status=422") || !strings.Contains(lines[0], "unknown cluster") {
				t.Errorf("logged %q", lines)
			}
		}
		if n := w.count(time.Time{}, ""); n != 10 {
			t.Errorf("%d requests", n)
		}
		if w.value("reachable") != 1 {
			t.Error("refusing is an answer")
		}
		w.set(func() { w.answer = nil })
		w.sender.Status(status("web", "Ready"))
		pass(time.Second)
		same(t, "statuses", w.records("workspace-status", "phase"), []string{"Ready"})
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	for name, status := range map[string]int{"429": http.StatusTooManyRequests, "503": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
				w.set(func() { w.answer = w.refuse(status, "Retry-After", "120") })
				w.sender.Metering([]clustercontrol.UsageRecord{usage("u", time.Now())})
				w.sender.Health([]clustercontrol.NodeReport{{Node: "n"}})
				pass(time.Second)
				asked := time.Now()
				w.set(func() { w.answer = nil })
				for range 7 {
					w.sender.Health([]clustercontrol.NodeReport{{Node: "n"}})
					pass(15 * time.Second)
				}
				if n := w.count(asked, ""); n != 0 {
					t.Errorf("%d requests before the server wants any", n)
				}
				w.sender.Health([]clustercontrol.NodeReport{{Node: "n"}})
				pass(45 * time.Second)
				w.sender.Health([]clustercontrol.NodeReport{{Node: "last"}})
				pass(time.Second)
				same(t, "usage", w.records("metering", "uid"), []string{"u"})
				same(t, "beats", w.records("node-health", "node"), []string{"last"})
				if n := w.value("dropped_total", "endpoint=node-health", "reason=late"); n != 9 {
					t.Errorf("%f beats are late", n)
				}
			})
		})
	}
}

// A recovery that one endpoint notices is used by all: nobody sits out five minutes.
func TestRecoveryWakesTheOthers(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() { w.answer = w.refuse(http.StatusBadGateway) })
		w.sender.Metering([]clustercontrol.UsageRecord{usage("u", time.Now())})
		for range 120 {
			w.sender.Health([]clustercontrol.NodeReport{{Node: "n"}})
			pass(15 * time.Second)
		}
		w.set(func() { w.answer = nil })
		w.sender.Health([]clustercontrol.NodeReport{{Node: "n"}})
		pass(2 * time.Second)
		same(t, "usage", w.records("metering", "uid"), []string{"u"})
	})
}

func TestNothingIsSentWithoutAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, clustercontrol.SenderOptions{})
		w.end()
		var key atomic.Pointer[clustercontrol.Identity]
		client, err := clustercontrol.NewClient(t.Context(), clustercontrol.Options{
			URL: "http://control.example/base", AllowHTTP: true, Metrics: w.metrics, Dial: w.connect,
			Identity: func() (*clustercontrol.Identity, error) {
				if found := key.Load(); found != nil {
					return found, nil
				}
				return nil, errors.New("there is no identity key yet")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		sender, err := clustercontrol.NewSender(t.Context(), client, clustercontrol.SenderOptions{Cluster: "jkt"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { sender.Run(ctx); close(done) }()
		sender.Status(status("web", "Ready"))
		pass(time.Minute)
		if n := w.count(time.Time{}, ""); n != 0 || w.value("requests_total", "outcome=no_identity") < 5 {
			t.Errorf("%d requests, %f attempts", n, w.value("requests_total"))
		}
		key.Store(w.key)
		pass(2 * time.Minute)
		same(t, "statuses", w.records("workspace-status", "phase"), []string{"Ready"})
		cancel()
		<-done
		client.CloseIdleConnections()
	})
}

func TestWait(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() { w.answer = w.refuse(http.StatusBadGateway) })
		w.sender.Register(node(clustercontrol.ActionDeregister, "n1"))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		if err := w.sender.Wait(ctx, clustercontrol.Register); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 30*time.Second {
			t.Errorf("in an outage Wait returned %v after %s", err, time.Since(start))
		}
		w.set(func() { w.answer = nil })
		if err := w.sender.Wait(t.Context(), clustercontrol.Register); err != nil {
			t.Error(err)
		}
		same(t, "ids", w.records("register", "id"), []string{"n1"})
		if err := w.sender.Wait(t.Context(), clustercontrol.Metering); err != nil {
			t.Error(err)
		}
	})
}

// What waits when the operator is told to stop is sent, within seconds.
func TestStopSendsWhatWaits(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		for i := range 700 {
			w.sender.Register(node(clustercontrol.ActionDeregister, strconv.Itoa(i)))
		}
		w.end()
		if got := w.records("register", "id"); len(got) != 700 {
			t.Errorf("%d of 700 arrived", len(got))
		}
	})
}

func TestStopDoesNotWaitForWhoHangs(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		w.set(func() { w.hang = make(chan struct{}) })
		w.sender.Status(status("web", "Ready"))
		pass(time.Second)
		start := time.Now()
		w.end()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}

// A large record is dropped, and does not stand in the way of others.
func TestLargeRecord(t *testing.T) {
	inWorld(t, clustercontrol.SenderOptions{}, func(t *testing.T, w *world) {
		r := node(clustercontrol.ActionRegister, "large")
		r.Labels = map[string]string{"a": strings.Repeat("x", 100<<10)}
		w.sender.Register(r)
		w.sender.Register(node(clustercontrol.ActionRegister, "small"))
		pass(time.Second)
		same(t, "ids", w.records("register", "id"), []string{"small"})
		if w.value("dropped_total", "reason=too_large") != 1 {
			t.Error("it was not counted")
		}
	})
}
