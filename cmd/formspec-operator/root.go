// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// The exit codes of the process.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2 // the command line is wrong: trying again does not help
)

// The commands that serve, and so write a log.
const (
	runCommand       = "run"
	activatorCommand = "activator"
)

// usageError is a mistake in the flags that only a check of several together, or of their values, could find.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// execute runs the subcommand that args name, and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	defer klog.Flush()
	parsed := false
	root := newRootCommand()
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()) // cobra would do so after this
		parsed = err == nil
		return err
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case !parsed, errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %v\nSee %s --help.\n", root.Name(), err, cmd.CommandPath())
		return exitUsage
	case cmd.Name() == runCommand || cmd.Name() == activatorCommand:
		klog.FromContext(ctx).Error(err, "Exiting", "command", cmd.Name())
		return exitError
	default:
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		return exitError
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "formspec-operator",
		Short:             "Runs FormSpec workspaces on a Kubernetes cluster",
		SilenceErrors:     true, // execute prints them
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(
		newRunCommand(),
		newActivatorCommand(),
		newRenderCommand(),
		newGrantCommand(),
		newIdentityCommand(),
		newVersionCommand(),
	)
	return root
}
