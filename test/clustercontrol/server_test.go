// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

// A server that starts again knows what it knew, and judges a retry by it.
func TestRestartOfTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	server, o := serve(t, cc.Options{Path: path})
	late := o.with(2)
	if err := server.Trust(trusted(late.key)); err != nil {
		t.Fatal(err)
	}
	const slot = "2026-07-10T10:00:00Z"
	restart(t, server, "shop", "h1")
	wantStatus(t, o.report(cc.Register, registration), 200)
	wantStatus(t, o.report(cc.Health, health), 200)
	wantStatus(t, o.report(cc.Metering, usage("u1", slot, 7)), 200)
	wantStatus(t, o.report(cc.WorkspaceReport, strings.Replace(status, `"uid"`, `"restart_required_consumed":1,"uid"`, 1)), 200)
	wantStatus(t, o.report(cc.WorkspaceReport, "{}"), 400)
	code, _ := o.post(cc.WorkspaceReport, o.envelope(9, status))
	wantStatus(t, code, 200)
	misbehave(t, server, cc.Register, cc.Misbehaviour{Mode: cc.Fail, Count: 1})
	wantStatus(t, o.report(cc.Register, registration), 500)
	before, captured := server.State(), captures(t, server)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Captures(); err == nil {
		t.Error("a closed server has captures")
	}
	wantStatus(t, o.report(cc.Health, health), 500)

	again, p := serve(t, cc.Options{Path: path})
	if after := again.State(); !reflect.DeepEqual(before, after) {
		t.Errorf("before:\n%+v\nafter:\n%+v", before, after)
	}
	if after := captures(t, again); !reflect.DeepEqual(captured, after) {
		t.Errorf("before:\n%+v\nafter:\n%+v", captured, after)
	}
	p.sequence = map[cc.Endpoint]int{cc.Register: 1, cc.Metering: 1}
	wantStatus(t, p.report(cc.Register, registration), 200) // the 500 was not taken in
	wantStatus(t, p.report(cc.Metering, usage("u1", slot, 7)), 409)
	code, _ = p.post(cc.WorkspaceReport, p.envelope(1, strings.Replace(status, `"uid"`, `"restart_required_consumed":1,"uid"`, 1)))
	wantStatus(t, code, 409)
	wantStatus(t, p.with(2).report(cc.Health, health), 200)
	if got := restart(t, again, "shop", "h2"); got != 2 {
		t.Errorf("the next cursor is %d, want 2", got)
	}
}

func captures(t *testing.T, server *cc.Server) []cc.Capture {
	t.Helper()
	got, err := server.Captures()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Everything that came can be searched, whatever became of it.
func TestCaptures(t *testing.T) {
	server, o := serve(t, cc.Options{})
	o.report(cc.Health, health)
	o.with(2).report(cc.Health, "marker-1")
	o.post(cc.Register, []byte("marker-2 \xff"))
	misbehave(t, server, cc.Register, cc.Misbehaviour{Mode: cc.Throttle})
	o.post(cc.Register, []byte("marker-3"))
	got := captures(t, server)
	if len(got) != 4 || !got[0].Verified || string(got[0].Body) != string(o.envelope(1, health)) || got[0].Verdict.Status != 200 {
		t.Fatalf("got %+v", got)
	}
	for i, want := range []string{"marker-1", "marker-2 \xff", "marker-3"} {
		if c := got[i+1]; !strings.Contains(string(c.Body), want) || c.ID <= got[i].ID {
			t.Errorf("capture %d is %+v, want %q", i+1, c, want)
		}
	}
	if got[3].Mode != cc.Throttle || got[3].Verdict.Status != 0 {
		t.Errorf("got %+v", got[3])
	}
}

func TestLogThatCannotBeOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	serve(t, cc.Options{Path: path})
	if _, err := cc.New(cc.Options{Path: path}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("two servers share a log: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "broken.db")
	if err := os.WriteFile(broken, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cc.New(cc.Options{Path: broken}); err == nil {
		t.Error("a broken log was opened")
	}
}

func TestWait(t *testing.T) {
	server, o := serve(t, cc.Options{})
	done := make(chan error, 1)
	go func() {
		done <- server.Wait(t.Context(), func(s cc.State) bool { return len(s.Nodes) == 1 })
	}()
	wantStatus(t, o.report(cc.Health, health), 200)
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Wait(ctx, func(cc.State) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Many senders and readers at once: each slot is counted once, and nothing is lost.
func TestConcurrency(t *testing.T) {
	const instances, envelopes = 8, 12
	clock := clocktesting.NewFakePassiveClock(start())
	server, o := serve(t, cc.Options{Clock: clock})
	var wait sync.WaitGroup
	for i := range instances {
		wait.Go(func() {
			sender := o.as(fmt.Sprintf("6f1e0c5a-58f0-4c0e-9d53-%012d", i))
			for n := range envelopes {
				sender.report(cc.Metering, usage(fmt.Sprintf("u%d", n), "2026-07-10T10:00:00Z", 7)) // the same from each
				sender.report(cc.Health, health)
				sender.poll(0, "")
				server.State()
			}
		})
	}
	wait.Go(func() {
		for range envelopes {
			_, _ = server.Captures()
			restart(t, server, "shop", "h")
			misbehave(t, server, cc.Register, cc.Misbehaviour{Mode: cc.Hang, Count: 1})
		}
	})
	wait.Wait()
	wantViolations(t, server)
	state := server.State()
	if len(state.Usage) != envelopes || state.Requests[cc.Metering] != instances*envelopes || len(state.Restarts) != envelopes {
		t.Errorf("%d slots, %d envelopes, %d restarts", len(state.Usage), state.Requests[cc.Metering], len(state.Restarts))
	}
	if state.Restarts[envelopes-1].Cursor != envelopes {
		t.Errorf("cursors were given out twice: %+v", state.Restarts)
	}
}
