// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

// hostile is a name as it stands in JSON.
const hostile = `</td><script>alert(1)</script><img src=x onerror=alert(2)>'\"&{{.}}`

// populate makes a server that has seen everything once, and returns it 20 s later. Each name in it goes through names.
func populate(t *testing.T, names func(string) string) *cc.Server {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(start().Add(-2 * time.Minute))
	server, o := serve(t, cc.Options{Clock: clock})
	node := func(name, status, reasons, used string, workspaces int) string {
		return fmt.Sprintf(`{"node":"%s","status":"%s","reasons":[%s],"labels":{},"workspaces":%d,`+
			`"allocatable":{"cpu_millicores":7910,"memory_bytes":33285996544},"usage":%s}`, names(name), status, reasons, workspaces, used)
	}
	o.report(cc.Health, node("worker-4", "healthy", "", `{"cpu_millicores":310,"memory_bytes":2254857830}`, 2)) // and nothing since
	clock.SetTime(start().Add(-20 * time.Second))
	o.report(cc.Health, node("worker-1", "healthy", "", `{"cpu_millicores":2310,"memory_bytes":12254857830}`, 14),
		node("worker-2", "degraded", `"`+names("MemoryPressure")+`"`, `{"cpu_millicores":5120,"memory_bytes":31138512896}`, 11),
		node("worker-3", "unhealthy", `"NotReady","NetworkUnavailable"`, "null", 0))
	o.report(cc.Register,
		fmt.Sprintf(`{"kind":"node","id":"%s","action":"register","labels":{"formspec.dev/region":"%s"},"capacity":{}}`,
			names("worker-1"), names("id-jkt")),
		`{"kind":"datastore","id":"bank-mandiri/pg-core","action":"register","labels":{"driver":"postgres"},"capacity":{"storageGB":50}}`)
	workspace := func(n int, name, phase, ready, reason string, have, want int) string {
		return fmt.Sprintf(`{"namespace":"%s","workspace":"%s","uid":"u%d","phase":"%s","ready_replicas":%d,"desired_replicas":%d,`+
			`"conditions":[{"type":"Ready","status":"%s","reason":"%s"}],"observed_generation":3}`,
			names("bank-mandiri"), names(name), n, phase, have, want, ready, names(reason))
	}
	o.report(cc.WorkspaceReport,
		workspace(1, "internet-banking", "Ready", "True", "Available", 3, 3), workspace(2, "loan-origination", "Degraded", "False", "CrashLoopBackOff", 0, 2),
		workspace(3, "kyc-onboarding", "Pending", "Unknown", "RollingOut", 1, 2), workspace(4, "quarterly-report", "Sleeping", "True", "Asleep", 0, 0))
	for slot := range 6 {
		at := start().Add(time.Duration(slot-6) * 5 * time.Minute).Format(time.RFC3339)
		var records []string
		for n := range 3 {
			records = append(records, fmt.Sprintf(`{"idempotency_key":"%[1]s/u%[2]d/%[3]s","slot":"%[3]s","namespace":"bank-mandiri","workspace":"%[6]s",`+
				`"uid":"u%[2]d","cpu_millicore_seconds":%[4]d,"memory_byte_seconds":%[5]d,"storage_bytes":734003200,"pod_seconds":900}`,
				cluster, n+1, at, 60000*(n+1)+slot*slot*9000, 268435456*300*(n+1), names("w")))
		}
		o.report(cc.Metering, records...)
	}
	for _, name := range []string{"internet-banking", "loan-origination"} {
		if _, err := server.RequestRestart(cc.Restart{
			Namespace: "bank-mandiri", Workspace: strings.ReplaceAll(names(name), `\"`, `"`),
			BinaryHash: "sha256:7f83b165", ArtifactID: name + "-api", Version: "2.4.1",
		}); err != nil {
			t.Fatal(err)
		}
	}
	restarted := workspace(1, "internet-banking", "Ready", "True", "Available", 3, 3)
	o.report(cc.WorkspaceReport, strings.Replace(restarted, `"uid"`, `"restart_required_consumed":1,"uid"`, 1))
	o.poll(2, "")
	o.post(cc.WorkspaceReport, o.envelope(7, workspace(3, "kyc-onboarding", "Pending", "Unknown", "RollingOut", 1, 2)))
	o.post(cc.Health, []byte(`{"protocol":"formspec-operator/1"}`))
	o.as(otherInstance).post(cc.Health, o.envelope(40, strings.Replace(health, "node-a", names("worker-1"), 1)),
		func(r *http.Request) { r.Header.Set("Formspec-Signature", strings.Repeat("0", 128)) })
	misbehave(t, server, cc.Metering, cc.Misbehaviour{Mode: cc.Throttle, RetryAfter: 120})
	clock.SetTime(start())
	return server
}

func plain(name string) string { return name }

func TestPage(t *testing.T) {
	server := populate(t, plain)
	code, html := ask(t, server, http.MethodGet, "/", "")
	if code != 200 {
		t.Fatalf("got %d %s", code, html)
	}
	text := regexp.MustCompile(`\s+`).ReplaceAllString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(html, " "), " ")
	for _, want := range []string{
		"Nodes alive 3 of 4", "Workspaces ready 2 of 4", "Usage slots 6", "Violations 3 ",
		"worker-1 jkt-premium-01 healthy – 14 2.31 of 7.91 11 GiB of 31 GiB 20 s ago", "worker-2 jkt-premium-01 degraded MemoryPressure",
		"worker-3 jkt-premium-01 unhealthy NotReady, NetworkUnavailable 0 – of 7.91 – of 31 GiB", "worker-4 jkt-premium-01 dead", "2 min ago",
		"bank-mandiri/ internet-banking jkt-premium-01 Ready 3/3 True Available", "Degraded 0/2 False CrashLoopBackOff", "Sleeping 0/0 True Asleep – –",
		"950m 256 MiB", "2026-07-10 09:55:00 3 0 0.29 core·h 128 MiB·h 0.8 pod·h 2.1 GiB", "sequence-gap 7 comes after 2 7", "not one of this body", "metering 429, Retry-After 2m0s",
		"register as the contract says", "internet-banking sha256:7f83b165 internet-banking-api 2.4.1 consumed", "loan-origination-api 2.4.1 waiting",
		"datastore bank-mandiri/pg-core", "formspec.dev/region=id-jkt", "after cursor 2",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have %q:\n%s", want, text)
		}
	}
}

func TestPageOfAnEmptyServer(t *testing.T) {
	server, _ := serve(t, cc.Options{TrustFirstUse: true})
	_, html := ask(t, server, http.MethodGet, "/", "")
	for _, want := range []string{
		"No node has reported.", "No workspace has been reported.", "Nothing has been metered.", "Nothing is registered.", "are not verified",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not have %q:\n%s", want, html)
		}
	}
}

// What names hold is text, wherever it stands, and the page may run nothing anyway.
func TestPageEscapesNames(t *testing.T) {
	server := populate(t, func(name string) string { return name + hostile })
	recorder := httptest.NewRecorder()
	server.Admin().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	html := recorder.Body.String()
	if len(server.State().Workspaces) != 4 || len(server.State().Nodes) != 4 {
		t.Fatalf("the names were not taken in: %+v", server.State().Violations)
	}
	if strings.Contains(html, "<script") || strings.Contains(html, "<img") || !strings.Contains(html, "&lt;script&gt;") {
		t.Errorf("a name is markup:\n%s", html)
	}
	if policy := recorder.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script") {
		t.Errorf("the policy is %q", policy)
	}
}

// TestScreenshot has a browser draw the page, in both colour schemes and on a telephone. FORMSPEC_SCREENSHOTS is a
// directory that keeps them.
func TestScreenshot(t *testing.T) {
	browser := browser(t)
	dir := os.Getenv("FORMSPEC_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	pages := httptest.NewServer(populate(t, plain).Admin())
	defer pages.Close()
	for name, flags := range map[string][]string{
		"light": {"--window-size=1240,1900"},
		"dark":  {"--window-size=1240,1900", "--blink-settings=preferredColorScheme=0"},
		"phone": {"--window-size=500,1200"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name+".png")
			flags := append([]string{
				"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(), "--screenshot=" + file,
			}, append(flags, pages.URL)...)
			if output, err := exec.CommandContext(t.Context(), browser, flags...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			if info, err := os.Stat(file); err != nil || info.Size() < 20_000 {
				t.Errorf("there is no picture of a page: %v, %v", info, err)
			}
		})
	}
}

func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser is installed: install chromium-headless-shell")
	return ""
}
