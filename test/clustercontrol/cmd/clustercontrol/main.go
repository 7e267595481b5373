// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command clustercontrol serves the wire protocol of Cluster Control, checks every request, and shows what it was told.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	defer klog.Flush()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "clustercontrol:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "clustercontrol",
		Short: "A reference Cluster Control: checks what an operator reports, and shows it",
		Example: "  clustercontrol --self-signed-dir tls --trusted-key jkt-premium-01=d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\n" +
			"  clustercontrol --dev --data clustercontrol.db",
		Args:          cobra.NoArgs,
		SilenceErrors: true, // main prints them
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, cmd.ErrOrStderr()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}
