package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"
)

func (c *command) node() *cobra.Command {
	spec := defaultNodeSpec()
	var name, address string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Make this machine a real node of a running instance, as root",
		Long: `Make this machine a real node of a running instance, as root: containerd, a
kubelet and a kube-proxy, with Debian packages for what cannot be built. The API
server restarts and from then on listens on all addresses.`,
		Args: cobra.NoArgs,
		RunE: c.withInstance(func(ctx context.Context, cmd *cobra.Command, i *instance, _ []string) error {
			labels := map[string]string{
				"topology.kubernetes.io/region": spec.region,
				"topology.kubernetes.io/zone":   spec.region + "-1",
			}
			maps.Copy(labels, spec.formspecLabels())
			maps.Copy(labels, spec.labels)
			// Packages and programs are not counted, as in "up".
			if err := i.joinNode(ctx, realNode{Name: name, Address: address, Labels: labels}, timeout, c.log); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), name)
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "node-name", "node-1", "the node's name")
	flags.StringVar(&address, "address", "", "the node's address (default: one of this machine's, not loopback)")
	spec.addLabelFlags(flags)
	flags.DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait until it is Ready, not counting packages and a build")
	return cmd
}

func (c *command) packages() *cobra.Command {
	return &cobra.Command{
		Use:   "packages",
		Short: "Install the Debian packages that a real node needs, as root; \"node\" does it too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return installPackages(cmd.Context(), c.log)
		},
	}
}

func (c *command) metrics() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Run a metrics server on the real node, for \"kubectl top\" and HorizontalPodAutoscalers",
		Args:  cobra.NoArgs,
		RunE: c.withInstance(func(ctx context.Context, _ *cobra.Command, i *instance, _ []string) error {
			return i.addMetrics(ctx, timeout, c.log)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait for the first metrics, not counting a build")
	return cmd
}

func (c *command) image() *cobra.Command {
	var env []string
	cmd := &cobra.Command{
		Use:   "image NAME BINARY",
		Short: "Wrap a static binary as a container image and give it to the real node",
		Args:  cobra.ExactArgs(2),
		RunE: c.withInstance(func(ctx context.Context, _ *cobra.Command, i *instance, args []string) error {
			if i.pid("containerd") == 0 {
				return fmt.Errorf("instance %s has no real node; add one with: devcluster node --name %s", i.name, i.name)
			}
			done := c.log.timer()
			if err := i.importImage(ctx, args[0], args[1], env...); err != nil {
				return err
			}
			done("imported %s", args[0])
			return nil
		}),
	}
	cmd.Flags().StringArrayVar(&env, "env", nil, "a variable of the containers' environment, NAME=VALUE; may be repeated")
	return cmd
}
