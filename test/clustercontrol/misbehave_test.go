// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"net/http"
	"strings"
	"testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

func misbehave(t *testing.T, server *cc.Server, endpoint cc.Endpoint, what cc.Misbehaviour) {
	t.Helper()
	if err := server.Misbehave(endpoint, what); err != nil {
		t.Fatal(err)
	}
}

// Each mode twice, then the same bytes again: what was not taken in is accepted, and what was is known.
func TestMisbehaviour(t *testing.T) {
	for _, test := range []struct {
		what       cc.Misbehaviour
		status     int // 0: none
		retryAfter string
		then       int
	}{
		{cc.Misbehaviour{Mode: cc.Refuse, Count: 2}, 0, "", 200},
		{cc.Misbehaviour{Mode: cc.Throttle, Count: 2, RetryAfter: 120}, 429, "120", 200},
		{cc.Misbehaviour{Mode: cc.Unavailable, Count: 2, RetryAfter: 7}, 503, "7", 200},
		{cc.Misbehaviour{Mode: cc.Throttle, Count: 2}, 429, "", 200},
		{cc.Misbehaviour{Mode: cc.Fail, Count: 2}, 500, "", 200},
		{cc.Misbehaviour{Mode: cc.Drop, Count: 2}, 0, "", 409},
	} {
		t.Run(test.what.String(), func(t *testing.T) {
			server, o := serve(t, cc.Options{})
			misbehave(t, server, cc.Health, test.what)
			body := o.envelope(1, health)
			for range 2 {
				got, err := o.try(http.MethodPost, "node-health", body)
				switch {
				case test.status == 0 && err == nil:
					t.Errorf("got %+v, want no answer", got)
				case test.status != 0 && err != nil:
					t.Error(err)
				case got.status != test.status || got.header.Get("Retry-After") != test.retryAfter:
					t.Errorf("got %+v, want %d and Retry-After %q", got, test.status, test.retryAfter)
				}
			}
			wantStatus(t, o.report(cc.Register, registration), 200) // other endpoints behave
			code, _ := o.post(cc.Health, body)
			wantStatus(t, code, test.then)
			wantViolations(t, server)
			if got := server.State().Requests[cc.Health]; got != 3 {
				t.Errorf("%d requests were captured, want 3", got)
			}
		})
	}
}

func TestHugeAnswer(t *testing.T) {
	server, o := serve(t, cc.Options{})
	misbehave(t, server, cc.Health, cc.Misbehaviour{Mode: cc.Huge})
	code, body := o.post(cc.Health, o.envelope(1, health))
	if code != 200 || len(body) < 10<<20 || strings.TrimSpace(body) != `{"message":"accepted"}` {
		t.Errorf("got %d and %d bytes that end in %q", code, len(body), body[max(0, len(body)-40):])
	}
	if len(server.State().Nodes) != 1 {
		t.Error("the report was not taken in")
	}
}

func TestHang(t *testing.T) {
	for name, release := range map[string]func(*cc.Server) error{
		"until it behaves": func(s *cc.Server) error { return s.Misbehave(cc.Health, cc.Misbehaviour{}) },
		"until it closes":  (*cc.Server).Close,
	} {
		t.Run(name, func(t *testing.T) {
			server, o := serve(t, cc.Options{})
			misbehave(t, server, cc.Health, cc.Misbehaviour{Mode: cc.Hang})
			answered := make(chan error, 1)
			go func() {
				_, err := o.try(http.MethodPost, "node-health", o.envelope(1, health))
				answered <- err
			}()
			arrived := func(s cc.State) bool { return s.Requests[cc.Health] == 1 }
			if err := server.Wait(t.Context(), arrived); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-answered:
				t.Fatalf("it was answered: %v", err)
			default:
			}
			if err := release(server); err != nil {
				t.Error(err)
			}
			if err := <-answered; err == nil {
				t.Error("it was answered in the end, want a closed connection")
			}
		})
	}
}

func TestMisbehaviourOfThePoll(t *testing.T) {
	server, o := serve(t, cc.Options{})
	misbehave(t, server, cc.DeployStatus, cc.Misbehaviour{Mode: cc.Throttle, RetryAfter: 3, Count: 1})
	if got, _ := o.poll(0, ""); got.status != 429 || got.header.Get("Retry-After") != "3" {
		t.Errorf("got %+v", got)
	}
	misbehave(t, server, cc.DeployStatus, cc.Misbehaviour{Mode: cc.Drop}) // no count: Go's client repeats a GET by itself
	if got, err := o.try(http.MethodGet, "deploy-status", nil); err == nil {
		t.Errorf("got %+v, want no answer", got)
	}
	misbehave(t, server, cc.DeployStatus, cc.Misbehaviour{})
	if got, _ := o.poll(0, ""); got.status != 200 {
		t.Errorf("got %+v", got)
	}
}

func TestMisbehaviourThatThereIsNot(t *testing.T) {
	server, _ := serve(t, cc.Options{})
	for name, err := range map[string]error{
		"endpoint": server.Misbehave("logs", cc.Misbehaviour{Mode: cc.Fail}),
		"mode":     server.Misbehave(cc.Health, cc.Misbehaviour{Mode: "418"}),
		"count":    server.Misbehave(cc.Health, cc.Misbehaviour{Mode: cc.Fail, Count: -1}),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error about the %s", err, name)
		}
	}
}
