// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
)

var (
	// shared is what all tests use. Nil: they are skipped.
	shared *environment
	// skipped says why.
	skipped string
)

// unavailableError says that this machine cannot be a node, which is nobody's mistake.
type unavailableError struct{ error }

func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case os.Getenv("FORMSPEC_E2E") == "" || testing.Short():
		skipped = "this takes a real node, for which it changes this machine's network: run make e2e"
	case runtime.GOOS != "linux" || os.Getuid() != 0:
		skipped = "a real node needs Linux and root"
	default:
		os.Exit(run(m))
	}
	os.Exit(m.Run())
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	env, err := setUp(ctx)
	if unavailable, ok := errors.AsType[unavailableError](err); ok {
		skipped = unavailable.Error()
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "set up the end-to-end tests:", err)
		_ = env.tearDown()
		return 1
	} else {
		shared = env
	}
	code := m.Run()
	if err := env.tearDown(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	return code
}
