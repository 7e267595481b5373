// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	logsapi "k8s.io/component-base/logs/api/v1"
)

func TestExecute(t *testing.T) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged // a process sets up logging once, a test more often
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string // parts; empty: nothing is printed
	}{
		"the version":              {args: []string{"version"}, code: exitOK, stdout: "version: "},
		"help":                     {args: []string{"run", "--help"}, code: exitOK, stdout: "--resource-image"},
		"no subcommand":            {code: exitOK, stdout: "Available Commands"},
		"an unknown subcommand":    {args: []string{"rum"}, code: exitUsage, stderr: `unknown command "rum"`},
		"an unknown flag":          {args: []string{"run", "--nope"}, code: exitUsage, stderr: "unknown flag: --nope\nSee formspec-operator run --help.\n"},
		"a stray argument":         {args: []string{"version", "x"}, code: exitUsage, stderr: "unknown command"},
		"a value that is wrong":    {args: []string{"run", "--resource-image=app"}, code: exitUsage, stderr: `--resource-image: "app" is not pinned`},
		"a failure that is logged": {args: []string{"run", "--kubeconfig=/does/not/exist"}, code: exitError},
		"nothing to render": {
			args: []string{"render", "-f", "/does/not/exist"}, code: exitError,
			stderr: "formspec-operator: read /does/not/exist: open /does/not/exist: no such file or directory\n",
		},
		"nothing to sign": {
			args: []string{"grant", "sign", "-f", "/does/not/exist", "--key", "/does/not/exist"}, code: exitError,
			stderr: "formspec-operator: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := execute(t.Context(), test.args, &stdout, &stderr)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			for stream, want := range map[*bytes.Buffer]string{&stdout: test.stdout, &stderr: test.stderr} {
				if got := stream.String(); !strings.Contains(got, want) || (want == "") != (got == "") || strings.Contains(got, "root.go") {
					t.Errorf("printed %q, want %q", got, want)
				}
			}
		})
	}
}
