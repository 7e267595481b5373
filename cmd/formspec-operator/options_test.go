// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// parse returns the options for a command line in the namespace own.
func parse(t *testing.T, args ...string) *options {
	t.Helper()
	o := newOptions()
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	o.complete("own")
	return o
}

func TestOptionsValidate(t *testing.T) {
	digest := "app@sha256:" + strings.Repeat("0a", 32)
	for name, test := range map[string]struct {
		args []string
		want []string // part of each line of the error; none: valid
	}{
		"the defaults":                {},
		"a Control Cluster":           {args: []string{"--control-cluster-url=https://control.example.com", "--cluster-name=jakarta"}},
		"two Control Cluster URLs":    {args: []string{"--control-cluster-url=https://a", "--workspace-control-cluster-url=https://b", "--cluster-name=c"}},
		"an image with a digest":      {args: []string{"--resource-image=" + digest}},
		"what only development may":   {args: []string{"--dev", "--control-cluster-url=http://c", "--cluster-name=c", "--resource-image=app:latest"}},
		"an election":                 {args: []string{"--leader-elect"}},
		"times without an election":   {args: []string{"--leader-elect-retry-period=1h"}},
		"several namespaces":          {args: []string{"--namespace=a,b", "--namespace=c"}},
		"a certificate":               {args: []string{"--metrics-cert-file=a", "--metrics-key-file=b"}},
		"metrics in the clear":        {args: []string{"--metrics-secure=false"}},
		"a rate limit":                {args: []string{"--kube-api-qps=50"}},
		"a URL without a cluster":     {args: []string{"--control-cluster-url=https://c"}, want: []string{"--cluster-name: required"}},
		"a workspace URL without one": {args: []string{"--workspace-control-cluster-url=https://c"}, want: []string{"--cluster-name: required"}},
		"an http URL": {
			args: []string{"--control-cluster-url=http://c", "--cluster-name=c"},
			want: []string{`--control-cluster-url: "http://c" is not encrypted: use https://, or set --dev`},
		},
		"an http URL for workspaces": {
			args: []string{"--control-cluster-url=https://c", "--workspace-control-cluster-url=http://w", "--cluster-name=c"},
			want: []string{`--workspace-control-cluster-url: "http://w" is not encrypted`},
		},
		"a URL without a scheme": {
			args: []string{"--control-cluster-url=control.example.com", "--cluster-name=c"},
			want: []string{"must be an https:// URL with a host"},
		},
		"a URL without a host": {args: []string{"--control-cluster-url=https://", "--cluster-name=c"}, want: []string{"with a host"}},
		"a URL of another scheme, even in development": {
			args: []string{"--dev", "--control-cluster-url=ftp://c", "--cluster-name=c"},
			want: []string{"must be an https:// URL"},
		},
		"a URL with credentials": {args: []string{"--control-cluster-url=https://me:secret@c", "--cluster-name=c"}, want: []string{"must not contain credentials"}},
		"a URL with a query":     {args: []string{"--control-cluster-url=https://c/?a=b", "--cluster-name=c"}, want: []string{"must have neither query nor fragment"}},
		"all of the channel": {args: []string{
			"--control-cluster-url=https://c/base", "--cluster-name=c", "--control-ca-file=a", "--control-client-cert-file=b", "--control-client-key-file=c",
			"--outbox-dir=d", "--outbox-max-bytes=8388608", "--metering-interval=10s",
		}},
		"a client key without its certificate": {
			args: []string{"--control-client-key-file=b"},
			want: []string{"--control-client-cert-file and --control-client-key-file: each needs the other"},
		},
		"an outbox without room":           {args: []string{"--outbox-max-bytes=100"}, want: []string{"--outbox-max-bytes: must be at least 8388608, is 100"}},
		"slots that are not whole seconds": {args: []string{"--metering-interval=1m0.5s"}, want: []string{"--metering-interval: must be whole seconds from 10s"}},
		"slots that are too long":          {args: []string{"--metering-interval=2h"}, want: []string{"--metering-interval: must be at most 1h, is 2h0m0s"}},
		"a URL that is none":               {args: []string{"--control-cluster-url=https://c:x", "--cluster-name=c"}, want: []string{"--control-cluster-url: parse"}},
		"election times that do not fit": {
			args: []string{"--leader-elect", "--leader-elect-lease-duration=12s"},
			want: []string{"--leader-elect-*: the lease duration 12s must be more than"},
		},
		"an image without a tag": {args: []string{"--resource-image=localhost:5000/app"}, want: []string{`--resource-image: "localhost:5000/app" is not pinned`}},
		"the newest image":       {args: []string{"--resource-image=app:latest"}, want: []string{"is not pinned"}},
		"a key without its certificate": {
			args: []string{"--metrics-key-file=b"},
			want: []string{"--metrics-cert-file and --metrics-key-file: each needs the other"},
		},
		"a certificate that is not used": {
			args: []string{"--metrics-secure=false", "--metrics-cert-file=a", "--metrics-key-file=b"},
			want: []string{"--metrics-cert-file: has no use"},
		},
		"a namespace that cannot be": {args: []string{"--namespace=ok,A_b"}, want: []string{`--namespace: "A_b" is no name`}},
		"everything at once": {
			args: []string{"--workspace-concurrency=0", "--idle-after=0s", "--wake-deadline=-1s", "--scale-to-zero=on", "--shutdown-timeout=-1s", "--kube-api-burst=-1"},
			want: []string{"--kube-api-burst: must not be negative", "--workspace-concurrency: must be at least 1", "--idle-after: must be positive", "--wake-deadline: must be positive", "--scale-to-zero: must be activator, keda-http or off, is \"on\"", "--shutdown-timeout: must be positive"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			if err := parse(t, test.args...).validate(); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if !slices.EqualFunc(got, test.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestOptionsComplete(t *testing.T) {
	t.Run("nothing is given", func(t *testing.T) {
		o := parse(t)
		if o.kubeAPIQPS >= 0 || o.leaderElectNamespace != "own" || o.workspaceControlClusterURL != "" || len(o.namespaces) != 0 {
			t.Errorf("got %+v", o)
		}
		if o.resourceImage != "formahub/formspec-resource:1.4.2" || o.idleAfter != 5*time.Minute || o.workspaceConcurrency != 10 {
			t.Errorf("got %+v", o)
		}
	})
	t.Run("zero means no rate limit", func(t *testing.T) {
		if o := parse(t, "--kube-api-qps=0"); o.kubeAPIQPS != -1 {
			t.Errorf("got %v", o.kubeAPIQPS)
		}
	})
	t.Run("the burst follows the rate", func(t *testing.T) {
		for qps, want := range map[string]int{"50": 100, "0.1": 1} {
			if o := parse(t, "--kube-api-qps="+qps); o.kubeAPIBurst != want {
				t.Errorf("%s: got %v", qps, o.kubeAPIBurst)
			}
		}
		if o := parse(t, "--kube-api-qps=50", "--kube-api-burst=60"); o.kubeAPIBurst != 60 {
			t.Errorf("got %v", o.kubeAPIBurst)
		}
	})
	t.Run("workspaces get the operator's Control Cluster unless told otherwise", func(t *testing.T) {
		if o := parse(t, "--control-cluster-url=https://c"); o.workspaceControlClusterURL != "https://c" {
			t.Errorf("got %q", o.workspaceControlClusterURL)
		}
		if o := parse(t, "--control-cluster-url=https://c", "--workspace-control-cluster-url=https://w"); o.workspaceControlClusterURL != "https://w" {
			t.Errorf("got %q", o.workspaceControlClusterURL)
		}
	})
	t.Run("namespaces are sorted, and each once", func(t *testing.T) {
		if o := parse(t, "--namespace=b, a,,b"); !slices.Equal(o.namespaces, []string{"a", "b"}) {
			t.Errorf("got %q", o.namespaces)
		}
	})
	t.Run("the lease's namespace can be given", func(t *testing.T) {
		if o := parse(t, "--leader-elect-namespace=x"); o.leaderElectNamespace != "x" {
			t.Errorf("got %q", o.leaderElectNamespace)
		}
	})
}
