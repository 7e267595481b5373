// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2/ktesting"
)

func parseActivator(t *testing.T, args ...string) *activatorOptions {
	t.Helper()
	o, flags := newActivatorOptions(), pflag.NewFlagSet("activator", pflag.ContinueOnError)
	o.addFlags(flags)
	local := []string{"--bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0", "--drain-delay=0"}
	if err := flags.Parse(append(local, args...)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestActivatorOptions(t *testing.T) {
	o := newActivatorOptions()
	if err := o.validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	if o.wakeDeadline != time.Minute || o.idleAfter != newOptions().idleAfter || o.drainDelay+o.shutdownTimeout <= o.wakeDeadline {
		t.Errorf("got %+v", o)
	}
	if err := parseActivator(t, "--max-held=10").validate(); err != nil {
		t.Errorf("a total below the default for one workspace is refused: %v", err)
	}
	for flag, args := range map[string][]string{
		"--idle-after":              {"--idle-after=0"},
		"--wake-deadline":           {"--wake-deadline=-1s"},
		"--max-held":                {"--max-held=0"},
		"--max-held-per-workspace":  {"--max-held-per-workspace=0"},
		"--lease-writes-per-second": {"--lease-writes-per-second=0"},
		"--drain-delay":             {"--drain-delay=-1s"},
		"--shutdown-timeout":        {"--shutdown-timeout=0"},
		"--metrics-cert-file":       {"--metrics-cert-file=x"},
	} {
		if err := parseActivator(t, args...).validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestActivatorStartsAndStopsWithoutAnAPIServer(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, signal := context.WithCancel(ctx)
	defer signal()
	p, err := newActivatorProcess(ctx, unreachable(), parseActivator(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stopServers()
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	health := "http://" + p.servers.health.listener.Addr().String()
	if code, _ := get(t, health+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d", code)
	}
	if code, body := get(t, health+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "caches") {
		t.Errorf("/readyz answers %d %s", code, body)
	}
	if code, page := get(t, "https://"+p.servers.metrics.listener.Addr().String()+"/metrics"); code != http.StatusOK || !strings.Contains(page, "formspec_activator_held_requests 0") {
		t.Errorf("/metrics answers %d %s", code, page)
	}
	signal()
	if err := <-ended; err != nil {
		t.Errorf("run returned %v", err)
	}
}

// emptyCluster is an API server that has no objects, and of which watches stay open.
func emptyCluster(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			kind, version := "WorkspaceList", "formspec.dev/v1alpha1"
			switch {
			case strings.HasSuffix(r.URL.Path, "/clusterclasses"):
				kind = "ClusterClassList"
			case strings.HasSuffix(r.URL.Path, "/endpointslices"):
				kind, version = "EndpointSliceList", "discovery.k8s.io/v1"
			case strings.HasSuffix(r.URL.Path, "/leases"):
				kind, version = "LeaseList", "coordination.k8s.io/v1"
			}
			_, _ = w.Write([]byte(`{"kind":"` + kind + `","apiVersion":"` + version + `","metadata":{"resourceVersion":"1"},"items":[]}`))
			return
		}
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			http.Error(w, "no streamed lists here", http.StatusUnprocessableEntity)
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return &rest.Config{Host: server.URL}
}

func TestActivatorIsReadyUntilItDrains(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, signal := context.WithCancel(ctx)
	defer signal()
	p, err := newActivatorProcess(ctx, emptyCluster(t), parseActivator(t, "--drain-delay=1s"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stopServers()
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	health, proxy := "http://"+p.servers.health.listener.Addr().String(), "http://"+p.listener.Addr().String()
	until := func(what string, code int, url string) {
		t.Helper()
		for limit := time.Now().Add(20 * time.Second); ; <-time.After(2 * time.Millisecond) {
			if got, _ := get(t, url); got == code {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("never: %s", what)
			}
		}
	}
	until("ready", http.StatusOK, health+"/readyz")
	until("it serves", http.StatusNotFound, proxy)
	signal()
	until("not ready", http.StatusServiceUnavailable, health+"/readyz")
	until("it serves all the same", http.StatusNotFound, proxy)
	if err := <-ended; err != nil {
		t.Errorf("run returned %v", err)
	}
	if conn, err := net.Dial("tcp", p.listener.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("it still listens")
	}
}

func TestActivatorDoesNotStartWithAPortThatIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for what, flag := range map[string]string{"serve workspaces": "--bind-address", "serve probes": "--health-probe-bind-address", "serve metrics": "--metrics-bind-address"} {
		if _, err := newActivatorProcess(t.Context(), unreachable(), parseActivator(t, flag+"="+taken.Addr().String())); err == nil || !strings.Contains(err.Error(), what+": ") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
