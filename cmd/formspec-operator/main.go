// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command formspec-operator runs FormSpec workspaces on a Kubernetes cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
