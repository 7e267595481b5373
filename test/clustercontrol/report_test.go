// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

func TestGoodReportsAreTakenIn(t *testing.T) {
	server, o := serve(t, cc.Options{})
	slot := "2026-07-10T09:55:00Z"
	ofNode := `{"idempotency_key":"jkt-premium-01/n1/2026-07-10T09:55:00Z","slot":"2026-07-10T09:55:00Z","node":"node-a","uid":"n1",` +
		`"cpu_millicore_seconds":null,"memory_byte_seconds":null}`
	cache := `{"kind":"cache","id":"tenant/c","action":"register","labels":{},"capacity":{},"join_token":"t"}`
	wantStatus(t, o.report(cc.Register, registration, cache), 200)
	wantStatus(t, o.report(cc.Health, health), 200)
	wantStatus(t, o.report(cc.Metering, usage("u1", slot, 7), ofNode), 200)
	wantStatus(t, o.report(cc.WorkspaceReport, status), 200)
	wantStatus(t, o.report(cc.WorkspaceReport), 200) // nothing to say is not wrong
	wantViolations(t, server)

	state := server.State()
	if len(state.Registrations) != 2 || state.Registrations[1].Capacity["cpu_millicores"] != 4000 || state.Registrations[0].ID != "tenant/c" {
		t.Errorf("registrations: %+v", state.Registrations)
	}
	if len(state.Nodes) != 1 || state.Nodes[0].Workspaces != 3 || state.Nodes[0].Usage != nil || !state.Nodes[0].LastBeat.Equal(start()) {
		t.Errorf("nodes: %+v", state.Nodes)
	}
	if len(state.Workspaces) != 1 || state.Workspaces[0].Condition("Ready").Reason != "Available" || state.Workspaces[0].Cluster != cluster {
		t.Errorf("workspaces: %+v", state.Workspaces)
	}
	if len(state.Usage) != 2 || state.Usage[0].Node != "node-a" || state.Usage[0].CPUMillicoreSeconds != nil ||
		*state.Usage[1].CPUMillicoreSeconds != 7 {
		t.Errorf("usage: %+v", state.Usage)
	}
}

func TestNodesDie(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start())
	server, o := serve(t, cc.Options{Clock: clock})
	dead := func(after time.Duration) bool {
		clock.SetTime(start().Add(after))
		return server.State().Nodes[0].Dead
	}
	o.report(cc.Health, health)
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {44 * time.Second, false}, {45 * time.Second, false}, {46 * time.Second, true}, {time.Hour, true}} {
		if got := dead(test.after); got != test.want {
			t.Errorf("after %s: dead is %v, want %v", test.after, got, test.want)
		}
	}
	o.report(cc.Health, health)
	if dead(time.Hour) {
		t.Error("a beat does not bring it back")
	}
	o.report(cc.Register, registration, `{"kind":"node","id":"node-a","action":"deregister","labels":{},"capacity":{}}`)
	if state := server.State(); len(state.Nodes) != 0 || len(state.Registrations) != 0 {
		t.Errorf("it is still there: %+v, %+v", state.Nodes, state.Registrations)
	}
	wantViolations(t, server)
}

func TestSequence(t *testing.T) {
	type step struct {
		endpoint cc.Endpoint
		instance string
		sequence int
		record   string
		want     int
	}
	other := strings.Replace(status, `"phase":"Ready"`, `"phase":"Pending"`, 1)
	bad := `{"namespace":"tenant"}`
	for name, test := range map[string]struct {
		steps []step
		kinds []cc.Kind
		phase string // of the workspace in the end
	}{
		"a retry": {
			steps: []step{
				{cc.WorkspaceReport, firstInstance, 1, status, 200},
				{cc.WorkspaceReport, firstInstance, 1, status, 409},
				{cc.WorkspaceReport, firstInstance, 2, other, 200},
			},
			phase: "Pending",
		},
		"a retry of what was refused": {
			steps: []step{
				{cc.WorkspaceReport, firstInstance, 1, bad, 400},
				{cc.WorkspaceReport, firstInstance, 1, bad, 400},
				{cc.WorkspaceReport, firstInstance, 2, status, 200},
			},
			kinds: []cc.Kind{cc.BadRecord}, phase: "Ready",
		},
		"a number used twice": {
			steps: []step{{cc.WorkspaceReport, firstInstance, 1, status, 200}, {cc.WorkspaceReport, firstInstance, 1, other, 400}},
			kinds: []cc.Kind{cc.SequenceReused}, phase: "Ready",
		},
		"not from 1": {
			steps: []step{{cc.WorkspaceReport, firstInstance, 2, status, 200}}, kinds: []cc.Kind{cc.SequenceGap}, phase: "Ready",
		},
		"a gap, told once": {
			steps: []step{
				{cc.WorkspaceReport, firstInstance, 1, status, 200},
				{cc.WorkspaceReport, firstInstance, 5, other, 200},
				{cc.WorkspaceReport, firstInstance, 6, status, 200},
			},
			kinds: []cc.Kind{cc.SequenceGap}, phase: "Ready",
		},
		"out of order": {
			steps: []step{
				{cc.WorkspaceReport, firstInstance, 2, other, 200},
				{cc.WorkspaceReport, firstInstance, 1, other, 200},
				{cc.WorkspaceReport, firstInstance, 3, status, 200},
			},
			kinds: []cc.Kind{cc.SequenceGap, cc.SequenceOrder}, phase: "Ready",
		},
		"a gap of health": {
			steps: []step{{cc.Health, firstInstance, 3, health, 200}, {cc.Health, firstInstance, 9, health, 200}},
		},
		"health out of order": {
			steps: []step{{cc.Health, firstInstance, 3, health, 200}, {cc.Health, firstInstance, 1, health, 200}}, kinds: []cc.Kind{cc.SequenceOrder},
		},
		"each instance and endpoint for itself": {
			steps: []step{
				{cc.WorkspaceReport, firstInstance, 1, status, 200},
				{cc.WorkspaceReport, otherInstance, 1, other, 200},
				{cc.Register, firstInstance, 1, registration, 200},
				{cc.WorkspaceReport, firstInstance, 2, status, 200},
			},
			phase: "Ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, o := serve(t, cc.Options{})
			for i, step := range test.steps {
				sender := o.as(step.instance)
				if got, message := sender.post(step.endpoint, sender.envelope(step.sequence, step.record)); got != step.want {
					t.Errorf("step %d: got %d %s, want %d", i, got, message, step.want)
				}
			}
			wantViolations(t, server, test.kinds...)
			if workspaces := server.State().Workspaces; test.phase != "" && (len(workspaces) != 1 || workspaces[0].Phase != test.phase) {
				t.Errorf("got %+v, want the phase %s", workspaces, test.phase)
			}
		})
	}
}

// What comes late says nothing about now.
func TestLateReportsChangeNothing(t *testing.T) {
	server, o := serve(t, cc.Options{})
	for _, late := range []struct {
		endpoint     cc.Endpoint
		newer, older string
	}{
		{cc.Health, health, strings.Replace(health, `"workspaces":3`, `"workspaces":99`, 1)},
		{cc.Register, registration, strings.Replace(registration, `"register"`, `"deregister"`, 1)},
		{cc.WorkspaceReport, status, strings.Replace(status, `"phase":"Ready"`, `"phase":"Pending"`, 1)},
	} {
		code, _ := o.post(late.endpoint, o.envelope(2, late.newer))
		wantStatus(t, code, 200)
		code, _ = o.post(late.endpoint, o.envelope(1, late.older))
		wantStatus(t, code, 200)
	}
	state := server.State()
	if len(state.Registrations) != 1 || len(state.Nodes) != 1 || state.Nodes[0].Workspaces != 3 || state.Workspaces[0].Phase != "Ready" {
		t.Errorf("got %+v", state)
	}
}

// What a leader had not sent yet when it ended can come after its successor's first report. Clocks decide between
// instances, and numbers within one, whose clock may have been set back.
func TestNewerStatusHolds(t *testing.T) {
	at := func(o *operator, sequence int, sent, phase string) {
		body := bytes.Replace(o.envelope(sequence, strings.Replace(status, `"phase":"Ready"`, `"phase":"`+phase+`"`, 1)),
			[]byte(start().Format(time.RFC3339)), []byte(sent), 1)
		code, _ := o.post(cc.WorkspaceReport, body)
		wantStatus(o.t, code, 200)
	}
	server, o := serve(t, cc.Options{})
	successor := o.as(otherInstance)
	at(successor, 1, "2026-07-10T10:00:00Z", "Ready")
	at(o, 1, "2026-07-10T09:59:59Z", "Pending")
	if got := server.State().Workspaces[0].Phase; got != "Ready" {
		t.Errorf("the older status of another instance holds: %s", got)
	}
	at(successor, 2, "2026-07-10T09:00:00Z", "Degraded")
	if got := server.State().Workspaces[0].Phase; got != "Degraded" {
		t.Errorf("the older status of the same instance holds: %s", got)
	}
	wantViolations(t, server)
}

func TestMeteringCountsOnce(t *testing.T) {
	const first, second = "2026-07-10T10:00:00Z", "2026-07-10T10:05:00Z"
	server, o := serve(t, cc.Options{})
	wantStatus(t, o.report(cc.Metering, usage("u1", first, 7)), 200)
	wantStatus(t, o.report(cc.Metering, usage("u1", first, 7)), 409)
	wantStatus(t, o.as(otherInstance).report(cc.Metering, usage("u1", first, 7)), 409)
	wantViolations(t, server)
	wantStatus(t, o.report(cc.Metering, usage("u1", first, 8)), 409)
	wantViolations(t, server, cc.SlotReused)
	wantStatus(t, o.report(cc.Metering, usage("u1", first, 7), usage("u1", second, 9), usage("u2", first, 1)), 200)
	wantViolations(t, server, cc.SlotReused)
	sum := int64(0)
	for _, u := range server.State().Usage {
		sum += *u.CPUMillicoreSeconds
	}
	if sum != 7+9+1 {
		t.Errorf("%d were counted, want 17: %+v", sum, server.State().Usage)
	}
}

// What is wrong in one record keeps the whole envelope out: half of it could never be sent again.
func TestMeteringTakesAllOrNothing(t *testing.T) {
	server, o := serve(t, cc.Options{MeteringInterval: time.Minute})
	wantStatus(t, o.report(cc.Metering, usage("u1", "2026-07-10T10:01:00Z", 7), usage("u1", "2026-07-10T10:01:30Z", 7)), 400)
	if got := server.State().Usage; len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	wantStatus(t, o.report(cc.Metering, usage("u1", "2026-07-10T10:01:00Z", 7)), 200)
	wantViolations(t, server, cc.BadRecord)
}

func TestWhatTheContractDoesNotHave(t *testing.T) {
	for name, test := range map[string]struct {
		method, path string
		want         int
	}{
		"another path":   {http.MethodPost, "logs", 404},
		"another method": {http.MethodGet, "register", 405},
		"a posted poll":  {http.MethodPost, "deploy-status", 405},
	} {
		t.Run(name, func(t *testing.T) {
			server, o := serve(t, cc.Options{})
			got, err := o.try(test.method, test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, got.status, test.want)
			wantViolations(t, server, cc.BadRequest)
		})
	}
}
