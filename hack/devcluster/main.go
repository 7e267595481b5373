// Command devcluster builds and runs a real Kubernetes control plane on one
// Linux machine, without root and without containers: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler as ordinary processes on loopback,
// and kwok for nodes whose pods become Ready without running anything.
//
// Tests and demos use it where a fake API server is not enough; see README.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}
