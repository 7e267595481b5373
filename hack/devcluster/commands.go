package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// command is what all subcommands share.
type command struct {
	name string // of the instance
	log  *progress
}

func newRootCommand() *cobra.Command {
	c := &command{log: &progress{out: os.Stderr}}
	root := &cobra.Command{
		Use:   "devcluster",
		Short: "Build and run a real Kubernetes " + kubernetesVersion + " control plane on this machine",
		// Results go to standard output and progress to standard error, so that
		// KUBECONFIG=$(devcluster up) works.
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&c.name, "name", "default", "which instance; each has its own data and ports")
	root.AddCommand(
		c.build(), c.up(), c.down(), c.status(), c.kubeconfig(), c.env(),
		c.start(), c.stop(), c.nodes(), c.node(), c.packages(), c.image(), c.metrics(), c.reap(),
	)
	return root
}

func (c *command) build() *cobra.Command {
	return &cobra.Command{
		Use:       "build [PROGRAM...]",
		Short:     "Build the programs that are missing, by default those of the control plane",
		Long:      "Build those of the programs that are missing: " + strings.Join(programNames(true), ", ") + ".\nWithout arguments it builds those of the control plane.",
		ValidArgs: programNames(true),
		Args:      cobra.OnlyValidArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			bin, err := binDir()
			if err != nil {
				return err
			}
			if len(names) == 0 {
				names = programNames(false)
			}
			if err := buildPrograms(cmd.Context(), bin, names, c.log); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), bin)
			return nil
		},
	}
}

func (c *command) up() *cobra.Command {
	var req upRequest
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start what does not run yet, wait until it is ready, print the path of the kubeconfig",
		Args:  cobra.NoArgs,
		RunE: c.withInstance(func(ctx context.Context, cmd *cobra.Command, i *instance, _ []string) error {
			req.given = cmd.Flags().Changed
			if err := i.up(ctx, req, c.log); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), i.kubeconfig())
			return nil
		}),
	}
	req.options.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&req.dieWith, "die-with", 0, "down --wipe as soon as the process with this id is gone")
	cmd.Flags().DurationVar(&req.timeout, "timeout", 2*time.Minute, "how long to wait, not counting a build")
	return cmd
}

func (c *command) down() *cobra.Command {
	var wipe bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End all processes of an instance",
		Args:  cobra.NoArgs,
		RunE: c.withInstance(func(ctx context.Context, _ *cobra.Command, i *instance, _ []string) error {
			return i.down(ctx, wipe, c.log)
		}),
	}
	cmd.Flags().BoolVar(&wipe, "wipe", false, "delete the instance's files too")
	return cmd
}

func (c *command) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what runs; fails unless everything does",
		Args:  cobra.NoArgs,
		RunE: c.withInstance(func(ctx context.Context, cmd *cobra.Command, i *instance, _ []string) error {
			all, err := i.printStatus(ctx, cmd.OutOrStdout())
			if err == nil && !all {
				err = errors.New("not everything is running")
			}
			return err
		}),
	}
}

func (c *command) kubeconfig() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the administrator's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: c.withInstance(func(_ context.Context, cmd *cobra.Command, i *instance, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), i.kubeconfig())
			return nil
		}),
	}
}

func (c *command) env() *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print shell lines that set KUBECONFIG and put the built kubectl on PATH",
		Args:  cobra.NoArgs,
		RunE: c.withInstance(func(_ context.Context, cmd *cobra.Command, i *instance, _ []string) error {
			fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\nexport PATH=%s:\"$PATH\"\n", shellQuote(i.kubeconfig()), shellQuote(i.bin))
			return nil
		}),
	}
}

func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (c *command) start() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:       "start COMPONENT",
		Short:     "Start one component again, with the options and port it had",
		ValidArgs: componentNames(),
		Args:      cobra.ExactArgs(1),
		RunE: c.withComponent(func(ctx context.Context, i *instance, k component) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return i.startComponent(ctx, k, c.log)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait until it is ready")
	return cmd
}

func (c *command) stop() *cobra.Command {
	var kill bool
	cmd := &cobra.Command{
		Use:       "stop COMPONENT",
		Short:     "Stop one component, as an outage",
		ValidArgs: componentNames(),
		Args:      cobra.ExactArgs(1),
		RunE: c.withComponent(func(ctx context.Context, i *instance, k component) error {
			return i.stopComponent(ctx, k, kill, c.log)
		}),
	}
	cmd.Flags().BoolVar(&kill, "kill", false, "with SIGKILL, as a crash")
	return cmd
}

func (c *command) reap() *cobra.Command {
	var pid int
	cmd := &cobra.Command{
		Use:    "reap",
		Short:  "Wait for the end of a process, then wipe the instance; started by up --die-with",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: c.withInstance(func(ctx context.Context, _ *cobra.Command, i *instance, _ []string) error {
			return i.reap(ctx, pid, c.log)
		}),
	}
	cmd.Flags().IntVar(&pid, "pid", 0, "the process to wait for")
	return cmd
}

// withInstance adapts a function to cobra and opens the instance for it.
func (c *command) withInstance(run func(context.Context, *cobra.Command, *instance, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		i, err := openInstance(c.name)
		if err != nil {
			return err
		}
		return run(cmd.Context(), cmd, i, args)
	}
}

// withComponent also looks up the component that the only argument names.
func (c *command) withComponent(run func(context.Context, *instance, component) error) func(*cobra.Command, []string) error {
	return c.withInstance(func(ctx context.Context, _ *cobra.Command, i *instance, args []string) error {
		k, err := findComponent(args[0])
		if err != nil {
			return err
		}
		return run(ctx, i, k)
	})
}
