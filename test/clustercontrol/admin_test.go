// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

// ask asks the admin handler, as curl would.
func ask(t *testing.T, server *cc.Server, method, path, body string, changes ...func(*http.Request)) (status int, answer string) {
	t.Helper()
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, change := range changes {
		change(request)
	}
	recorder := httptest.NewRecorder()
	server.Admin().ServeHTTP(recorder, request)
	content, err := io.ReadAll(recorder.Body)
	if err != nil {
		t.Fatal(err)
	}
	return recorder.Code, string(content)
}

func TestAdminReads(t *testing.T) {
	server, o := serve(t, cc.Options{})
	o.report(cc.Health, health)
	o.report(cc.WorkspaceReport, `{"a":"<marker>"}`)

	code, answer := ask(t, server, http.MethodGet, "/admin/state", "")
	var state cc.State
	if err := json.Unmarshal([]byte(answer), &state); err != nil || code != 200 || len(state.Nodes) != 1 || len(state.Violations) != 1 {
		t.Errorf("state: %d %s, %v", code, answer, err)
	}
	code, answer = ask(t, server, http.MethodGet, "/admin/violations", "")
	var violations []cc.Violation
	if err := json.Unmarshal([]byte(answer), &violations); err != nil || code != 200 || len(violations) != 1 || violations[0].Kind != cc.BadRecord {
		t.Errorf("violations: %d %s, %v", code, answer, err)
	}
	code, answer = ask(t, server, http.MethodGet, "/admin/captures?endpoint=workspace-status", "")
	var line struct {
		Body    string
		Verdict cc.Verdict
	}
	err := json.Unmarshal([]byte(answer), &line)
	if err != nil || code != 200 || line.Body != string(o.envelope(1, `{"a":"<marker>"}`)) || line.Verdict.Status != 400 {
		t.Errorf("captures: %d %s, %v", code, answer, err)
	}
	if !strings.Contains(answer, "<marker>") {
		t.Errorf("grep does not find it: %s", answer)
	}
	if _, answer = ask(t, server, http.MethodGet, "/admin/captures", ""); strings.Count(answer, "\n") != 2 {
		t.Errorf("all captures: %s", answer)
	}
}

func TestAdminChanges(t *testing.T) {
	const restart = `{"namespace":"tenant","workspace":"shop","binary_hash":"h1","artifact_id":"a1","version":"1.2"}`
	key := hex.EncodeToString(trusted(newKey(2)).Public)
	for name, test := range map[string]struct {
		method, path, body string
		status             int
		says               string
	}{
		"a restart":                  {"POST", "/admin/restarts", restart, 201, `"cursor": 1`},
		"a restart without a hash":   {"POST", "/admin/restarts", `{"namespace":"tenant","workspace":"shop"}`, 400, "binary_hash"},
		"a misspelt restart":         {"POST", "/admin/restarts", `{"hash":"h1"}`, 400, "hash"},
		"a key":                      {"POST", "/admin/keys", `{"public_key":"` + key + `"}`, 201, `"key_id": "` + trusted(newKey(2)).ID()},
		"half a key":                 {"POST", "/admin/keys", `{"public_key":"abcd"}`, 400, "64 hex digits"},
		"misbehaviour":               {"PUT", "/admin/misbehaviour/metering", `{"mode":"429","retry_after_seconds":120}`, 200, `"retry_after_seconds": 120`},
		"misbehaviour of all":        {"PUT", "/admin/misbehaviour/all", `{"mode":"hang"}`, 200, `"deploy-status"`},
		"no such mode":               {"PUT", "/admin/misbehaviour/metering", `{"mode":"418"}`, 400, "one of [refuse"},
		"no such endpoint":           {"PUT", "/admin/misbehaviour/logs", `{"mode":"hang"}`, 400, "one of [register"},
		"behaviour":                  {"DELETE", "/admin/misbehaviour/all", "", 200, "{}"},
		"something else":             {"POST", "/admin/state", "", 405, ""},
		"a body that is larger":      {"POST", "/admin/keys", `{"public_key":"` + strings.Repeat("a", 100<<10) + `"}`, 400, "large"},
		"somewhere without anything": {"GET", "/admin/", "", 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := serve(t, cc.Options{})
			if code, answer := ask(t, server, test.method, test.path, test.body); code != test.status || !strings.Contains(answer, test.says) {
				t.Errorf("got %d %s, want %d and %q", code, answer, test.status, test.says)
			}
		})
	}
}

func TestAdminChangesHold(t *testing.T) {
	server, o := serve(t, cc.Options{})
	other := o.with(2)
	ask(t, server, "POST", "/admin/keys", `{"public_key":"`+hex.EncodeToString(trusted(other.key).Public)+`","cluster":"sby-01"}`)
	wantStatus(t, other.report(cc.Health, health), 401) // it is for another cluster
	ask(t, server, "PUT", "/admin/misbehaviour/register", `{"mode":"503","count":1}`)
	wantStatus(t, o.report(cc.Register, registration), 503)
	ask(t, server, "POST", "/admin/restarts", `{"namespace":"tenant","workspace":"shop","binary_hash":"h1"}`)
	if _, got := o.poll(0, ""); len(got.Items) != 1 || got.Items[0].BinaryHash != "h1" {
		t.Errorf("got %+v", got)
	}
}

// A web page that a developer has open may not change anything.
func TestAdminRefusesOtherOrigins(t *testing.T) {
	server, _ := serve(t, cc.Options{})
	code, _ := ask(t, server, "POST", "/admin/restarts", `{"namespace":"tenant","workspace":"shop","binary_hash":"h1"}`,
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	if code != http.StatusForbidden || len(server.State().Restarts) != 0 {
		t.Errorf("got %d, %+v", code, server.State().Restarts)
	}
}
