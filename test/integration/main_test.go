// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// shared is what all tests use. Nil under -short.
var shared *environment

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	atOnce()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	env, err := setUp(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up the integration tests:", err)
		_ = env.tearDown()
		return 1
	}
	shared = env
	code := m.Run()
	if err := env.tearDown(); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	return code
}

// atOnce lets more tests run at the same time than there are processors, unless -parallel is given: they mostly wait.
func atOnce() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "6")
	}
}
