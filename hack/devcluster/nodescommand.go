package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (c *command) nodes() *cobra.Command {
	spec := defaultNodeSpec()
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Add simulated nodes and print their names",
		Args:  cobra.NoArgs,
		RunE: c.withInstance(func(ctx context.Context, cmd *cobra.Command, i *instance, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			if i.pid("kube-apiserver") == 0 || i.pid("kwok") == 0 {
				return fmt.Errorf("kube-apiserver and kwok of instance %s must be running", i.name)
			}
			api, err := i.api()
			if err != nil {
				return err
			}
			names, err := api.addNodes(ctx, spec)
			if err != nil {
				return err
			}
			if _, err := api.waitNodesReady(ctx); err != nil {
				return err
			}
			for _, name := range names {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.IntVar(&spec.count, "count", spec.count, "how many")
	spec.addLabelFlags(flags)
	flags.IntVar(&spec.zones, "zones", spec.zones, "how many zones to spread over")
	flags.StringVar(&spec.cpu, "cpu", spec.cpu, "allocatable CPU of each node")
	flags.StringVar(&spec.memory, "memory", spec.memory, "allocatable memory of each node")
	flags.StringVar(&spec.pods, "pods", spec.pods, "pods that fit on each node")
	flags.DurationVar(&timeout, "timeout", time.Minute, "how long to wait until they are Ready")
	return cmd
}

func (s *nodeSpec) addLabelFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.environment, "environment", s.environment, "label formspec.dev/environment")
	flags.StringVar(&s.region, "region", s.region, "label formspec.dev/region, also part of the zone's name")
	flags.StringVar(&s.tier, "tier", s.tier, "label formspec.dev/tier")
	flags.StringVar(&s.capacity, "capacity", s.capacity, "label formspec.dev/capacity")
	flags.BoolVar(&s.unlabelled, "unlabelled", s.unlabelled, "no formspec.dev labels")
	flags.StringToStringVar(&s.labels, "label", nil, "further label KEY=VALUE; may be repeated")
}
