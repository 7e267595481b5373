// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/ktesting"
)

// unreachable is the config of an API server that is down.
func unreachable() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }

func TestOperatorStartsAndStopsWithoutAnAPIServer(t *testing.T) {
	for name, args := range map[string][]string{
		"alone":                  nil,
		"with a lease":           {"--leader-elect"},
		"in namespaces":          {"--namespace=a,b"},
		"for development":        {"--dev"},
		"with a Control Cluster": {"--control-cluster-url=https://127.0.0.1:1", "--cluster-name=c"},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, append(args, "--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=127.0.0.1:0")...)
			_, ctx := ktesting.NewTestContext(t)
			ctx, signal := context.WithCancel(ctx)
			defer signal()
			op, err := newOperator(ctx, unreachable(), o)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- op.run(ctx) }()

			if code, _ := get(t, "http://"+op.servers.health.listener.Addr().String()+"/healthz"); code != http.StatusOK {
				t.Errorf("/healthz answers %d", code)
			}
			code, page := get(t, "https://"+op.servers.metrics.listener.Addr().String()+"/metrics")
			if code != http.StatusOK {
				t.Errorf("/metrics answers %d", code)
			}
			for metric, want := range map[string]bool{
				"formspec_operator_build_info{":                     true,
				"go_goroutines ":                                    true,
				`formspec_operator_insecure_option{option="dev"} 1`: o.dev,
				"formspec_cluster_control_":                         o.controlClusterURL != "",
			} {
				if got := strings.Contains(page, metric); got != want {
					t.Errorf("/metrics has %s: %t, want %t", metric, got, want)
				}
			}
			signal()
			if err := <-ended; err != nil {
				t.Errorf("run returned %v", err)
			}
		})
	}
}

// An owner has Datastores in several namespaces, and what one of them remembers of him counts in all.
func TestTheJudgeOfAScopeKnowsTheDatastoresOfAll(t *testing.T) {
	op, err := newOperator(t.Context(), unreachable(), parse(t, "--namespace=a,b,c", "--health-probe-bind-address=0", "--metrics-bind-address=0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range op.deps.scopes {
		known := map[cache.Store]bool{}
		for _, datastores := range op.deps.judge(of).Datastores {
			known[datastores.GetStore()] = true
		}
		for _, s := range op.deps.scopes {
			if !known[s.formspec.Formspec().V1alpha1().Datastores().Informer().GetStore()] {
				t.Errorf("the judge of namespace %q does not know the Datastores in %q", of.namespace, s.namespace)
			}
		}
		if len(known) != 3 {
			t.Errorf("the judge of namespace %q knows %d caches", of.namespace, len(known))
		}
	}
}

func TestOperatorDoesNotStartWithAPortThatIsTaken(t *testing.T) {
	o := parse(t, "--health-probe-bind-address=127.0.0.1:0", "--metrics-bind-address=0")
	first, err := newOperator(t.Context(), unreachable(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer first.servers.stop()
	o.serving.healthBindAddress = first.servers.health.listener.Addr().String()
	if _, err := newOperator(t.Context(), unreachable(), o); err == nil || !strings.Contains(err.Error(), "serve probes: listen") {
		t.Errorf("got %v", err)
	}
}

// Reports may be lost with the process then, and Workspaces are not.
func TestOutboxThatCannotBeUsedStopsNobody(t *testing.T) {
	o := parse(t, "--health-probe-bind-address=0", "--metrics-bind-address=0", "--control-cluster-url=https://127.0.0.1:1", "--cluster-name=c",
		"--outbox-dir=/dev/null/outbox")
	op, err := newOperator(t.Context(), unreachable(), o)
	if err != nil {
		t.Fatal(err)
	}
	op.deps.reporting.close()
}

func TestChannelThatCannotBeSetUp(t *testing.T) {
	o := parse(t, "--health-probe-bind-address=0", "--metrics-bind-address=0", "--control-cluster-url=https://127.0.0.1:1", "--cluster-name=c",
		"--control-ca-file=/no/such/file")
	if _, err := newOperator(t.Context(), unreachable(), o); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("got %v", err)
	}
}

func TestSignalBeforeTheFirstSyncIsNoFailure(t *testing.T) {
	op, err := newOperator(t.Context(), unreachable(), parse(t, "--health-probe-bind-address=0", "--metrics-bind-address=0"))
	if err != nil {
		t.Fatal(err)
	}
	_, ctx := ktesting.NewTestContext(t)
	ctx, signal := context.WithCancel(ctx)
	signal()
	if err := op.lead(ctx); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestOwnNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if got := ownNamespace(file); got != defaultNamespace {
		t.Errorf("without a file: got %q", got)
	}
	if err := os.WriteFile(file, []byte("elsewhere\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ownNamespace(file); got != "elsewhere" {
		t.Errorf("got %q", got)
	}
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(content)
}
