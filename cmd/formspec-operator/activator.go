// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/activator"
	"github.com/formspec/formspec-operator/pkg/version"
)

func newActivatorCommand() *cobra.Command {
	o, logging := newActivatorOptions(), newLoggingOptions()
	cmd := &cobra.Command{
		Use:   activatorCommand,
		Short: "Runs the proxy that wakes sleeping workspaces, until it gets a signal",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			if err := logging.apply(); err != nil {
				return usageError{err}
			}
			return runActivator(cmd.Context(), o)
		},
	}
	o.addFlags(cmd.Flags())
	logging.addFlags(cmd.Flags())
	return cmd
}

func runActivator(ctx context.Context, o *activatorOptions) error {
	logger := klog.FromContext(ctx)
	v := version.Get()
	logger.Info("Starting the activator", "version", v.Version, "commit", v.Commit, "go", v.GoVersion)
	config, err := loadConfig(&options{kubeconfig: o.kubeconfig, kubeAPIQPS: -1})
	if err != nil {
		return err
	}
	config.UserAgent = "formspec-activator/" + v.Version
	p, err := newActivatorProcess(ctx, config, o)
	if err != nil {
		return err
	}
	defer p.stopServers()
	if err := p.run(ctx); err != nil {
		return err
	}
	logger.Info("Stopped")
	return nil
}

// activatorProcess is everything that one activator runs. It is built whole before any part of it starts.
type activatorProcess struct {
	servers   servers
	options   *activatorOptions
	activator *activator.Activator
	listener  net.Listener
	synced    atomic.Bool // the caches are full
}

func newActivatorProcess(ctx context.Context, config *rest.Config, o *activatorOptions) (*activatorProcess, error) {
	read, err := newClients(readConfig(config))
	if err != nil {
		return nil, err
	}
	// Not by the same connection: a write that fails is tried again by those who know how urgent it is.
	write, err := newClients(config)
	if err != nil {
		return nil, err
	}
	registry, err := newRegistry(&options{})
	if err != nil {
		return nil, err
	}
	identity, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name: %w", err)
	}
	p := &activatorProcess{options: o}
	p.activator, err = activator.New(ctx, activator.Config{
		Kube:                 read.kube,
		FormSpec:             read.formspec,
		Write:                write.kube,
		Identity:             identity,
		IdleAfter:            o.idleAfter,
		WakeDeadline:         o.wakeDeadline,
		MaxHeld:              o.maxHeld,
		MaxHeldPerWorkspace:  o.maxHeldPerWorkspace,
		LeaseWritesPerSecond: o.leaseWritesPerSecond,
		Metrics:              registry,
	})
	if err != nil {
		return nil, fmt.Errorf("build the activator: %w", err)
	}
	if err := p.listen(registry); err != nil {
		p.stopServers()
		return nil, err
	}
	return p, nil
}

func (p *activatorProcess) listen(registry metrics.KubeRegistry) (err error) {
	o := p.options
	if p.listener, err = net.Listen("tcp", o.bindAddress); err != nil {
		return fmt.Errorf("serve workspaces: %w", err)
	}
	p.servers, err = o.serving.listen(p.ready, registry)
	return err
}

// run serves until a signal, and returns once it has drained.
func (p *activatorProcess) run(signalled context.Context) error {
	ctx, fail := context.WithCancelCause(signalled)
	defer fail(nil)
	p.servers.start(fail)

	// What it knows stays live, and Leases are renewed, while requests drain.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var leases sync.WaitGroup
	defer leases.Wait()
	defer stop()
	if err := p.activator.Start(ctx, background); err != nil {
		return failure(signalled, err)
	}
	leases.Go(func() { p.activator.Run(background) })
	p.synced.Store(true)
	klog.FromContext(ctx).Info("Caches have synced, serving", "address", p.listener.Addr())

	err := p.activator.Serve(ctx, p.listener, activator.Drain{Delay: p.options.drainDelay, Timeout: p.options.shutdownTimeout})
	if signalled.Err() == nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// failure returns err unless a signal was the reason for it.
func failure(signalled context.Context, err error) error {
	if signalled.Err() != nil {
		return nil
	}
	return err
}

// ready returns nil while requests should come here.
func (p *activatorProcess) ready() error {
	switch {
	case !p.synced.Load():
		return errors.New("the caches have not synced yet")
	case p.activator.Draining():
		return errors.New("draining")
	}
	return nil
}

func (p *activatorProcess) stopServers() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.servers.stop()
}
