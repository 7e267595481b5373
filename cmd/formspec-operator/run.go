// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/controllers"
	"github.com/formspec/formspec-operator/pkg/controllers/activity"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
	"github.com/formspec/formspec-operator/pkg/controllers/lead"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	probes "github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
	"github.com/formspec/formspec-operator/pkg/version"
)

// leaseName names the lease of all replicas of the operator in a namespace.
const leaseName = "formspec-operator"

func newRunCommand() *cobra.Command {
	o, logging := newOptions(), newLoggingOptions()
	cmd := &cobra.Command{
		Use:   runCommand,
		Short: "Runs the operator until it gets a signal",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.complete(ownNamespace(serviceAccountNamespace))
			if err := o.validate(); err != nil {
				return usageError{err}
			}
			if err := logging.apply(); err != nil {
				return usageError{err}
			}
			return run(cmd.Context(), o)
		},
	}
	o.addFlags(cmd.Flags())
	logging.addFlags(cmd.Flags())
	return cmd
}

func run(ctx context.Context, o *options) error {
	logger := klog.FromContext(ctx)
	v := version.Get()
	logger.Info("Starting", "version", v.Version, "commit", v.Commit, "go", v.GoVersion)
	for _, name := range o.insecure() {
		logger.Info("WARNING: an insecure option is on, do not use it in production", "option", "--"+name)
	}
	config, err := loadConfig(o)
	if err != nil {
		return err
	}
	if o.withKEDA, err = hasKEDA(ctx, config); err != nil {
		if o.scaleToZero == string(workspace.ModeKEDA) {
			return err
		}
		logger.Info("Taking it that there is no KEDA, which is not in use", "err", err)
	}
	op, err := newOperator(ctx, config, o)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { logger.Info("Stopping", "cause", context.Cause(ctx), "timeout", o.shutdownTimeout) })()
	if err := op.run(ctx); err != nil {
		return err
	}
	logger.Info("Stopped")
	return nil
}

// operator is everything that one process runs. It is built whole before any part of it starts.
type operator struct {
	servers     servers
	options     *options
	deps        *dependencies
	controllers []controllers.Controller
	election    lead.Config
	synced      atomic.Bool // the caches are warm
}

func newOperator(ctx context.Context, config *rest.Config, o *options) (*operator, error) {
	op := &operator{options: o}
	fence := lead.NewFence(clock.RealClock{})
	read, err := newClients(readConfig(config))
	if err != nil {
		return nil, err
	}
	write, err := newClients(fencedConfig(config, fence))
	if err != nil {
		return nil, err
	}
	registry, err := newRegistry(o)
	if err != nil {
		return nil, err
	}
	prober := probes.NewProber(probes.ProberOptions{RefuseLoopback: inPod(o)})
	op.deps = &dependencies{
		options: o,
		write:   write,
		cluster: newClusterInformers(read),
		scopes:  newScopes(read, o.namespaces, o.withKEDA),
		ledger:  admission.NewLedger(),
		keys:    ownerkeys.New(read.kube, o.leaderElectNamespace),
		pool:    probes.NewPool(prober.Probe, clock.RealClock{}),
		roles:   roles.NewManager(prober),
		events:  events.NewBroadcaster(eventSink{&events.EventSinkImpl{Interface: write.kube.EventsV1()}}),
		metrics: registry,
	}
	if o.scaleToZero == string(workspace.ModeActivator) {
		if op.deps.activity, err = activity.New(ctx, read.kube, clock.RealClock{}); err != nil {
			return nil, fmt.Errorf("set up the view of activity: %w", err)
		}
	}
	if op.deps.reporting, err = newReporting(ctx, op.deps, read, config, fence); err != nil {
		return nil, fmt.Errorf("set up reporting to the Control Cluster: %w", err)
	}
	if op.controllers, err = newControllers(ctx, op.deps); err != nil {
		return nil, fmt.Errorf("build the controllers: %w", err)
	}
	op.election = lead.Config{Name: leaseName, Timing: o.leaderElectTiming, Fence: fence}
	if o.leaderElect {
		if op.election.Lock, err = newLock(config, o); err != nil {
			return nil, err
		}
	}
	if op.servers, err = o.serving.listen(op.ready, registry); err != nil {
		op.servers.stop()
		return nil, err
	}
	return op, nil
}

// run starts the operator and returns once it has drained, or at once when the lease is lost.
func (op *operator) run(signalled context.Context) error {
	ctx, fail := context.WithCancelCause(signalled)
	defer fail(nil)
	ended := func() error {
		if signalled.Err() != nil {
			return nil
		}
		return context.Cause(ctx)
	}
	defer op.servers.stop()
	defer op.deps.reporting.close()
	op.servers.start(fail)

	// The caches stay live while the work drains. They fill before the election, so that a standby is warm.
	informerCtx, stopInformers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopInformers()
	if op.startInformers(ctx, informerCtx) != nil {
		return ended()
	}
	op.synced.Store(true)
	klog.FromContext(ctx).Info("Caches have synced")
	op.deps.reporting.sample(informerCtx)

	if err := lead.Run(ctx, op.election, op.lead); err != nil {
		return err
	}
	return ended()
}

// keysPatience is how long the work waits for the owners' keys, which may be out of reach for good. A claim that was verified before stays
// in force without them.
const keysPatience = 10 * time.Second

// startInformers starts all informers, which run until their own context ends, and waits until the caches are full or ctx ends.
func (op *operator) startInformers(ctx, informers context.Context) error {
	op.deps.keys.Start(informers)
	op.deps.reporting.watch(informers)
	var synced []cache.DoneChecker
	for _, s := range op.deps.scopes {
		go s.secrets.RunWithContext(informers)
		synced = append(synced, s.secrets.HasSyncedChecker())
		if s.scaledObjects != nil {
			go s.scaledObjects.RunWithContext(informers)
			synced = append(synced, s.scaledObjects.HasSyncedChecker())
		}
	}
	for _, f := range op.deps.factories() {
		f.StartWithContext(informers)
	}
	if op.deps.activity != nil {
		op.deps.activity.Start(informers)
		synced = append(synced, op.deps.activity.Synced()...)
	}
	for _, f := range op.deps.factories() {
		if err := f.WaitForCacheSyncWithContext(ctx).Err; err != nil {
			return err
		}
	}
	if !cache.WaitFor(ctx, "", synced...) {
		return context.Cause(ctx)
	}
	patient, cancel := context.WithTimeout(ctx, keysPatience)
	defer cancel()
	op.deps.keys.Wait(patient)
	return ctx.Err()
}

// lead works while this process leads.
func (op *operator) lead(ctx context.Context) error {
	// Events of the last syncs are still sent while the work drains.
	eventsCtx, stopEvents := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEvents()
	if err := op.deps.events.StartRecordingToSinkWithContext(eventsCtx); err != nil {
		return fmt.Errorf("start recording events: %w", err)
	}
	defer op.deps.events.Shutdown()
	if op.readHolders(ctx) != nil {
		return nil // told to stop: that is no failure
	}
	probing, stopProbing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopProbing()
	go op.deps.pool.Run(probing)
	return controllers.Run(ctx, op.controllers, op.options.workspaceConcurrency, op.options.shutdownTimeout)
}

// readHolders tells the ledger who holds a slot: the caches may not show yet what the last leader did, and a slot that is given out
// twice cannot be taken back. It tries until it succeeds or ctx ends.
func (op *operator) readHolders(ctx context.Context) error {
	read := func(ctx context.Context) (bool, error) {
		for _, s := range op.deps.scopes {
			if err := op.deps.ledger.ReadHolders(ctx, op.deps.write.kube, op.deps.write.formspec, s.namespace); err != nil {
				if ctx.Err() == nil { // else it was told to stop: that is no failure
					klog.FromContext(ctx).Error(err, "Cannot read who holds the slots of ClusterClasses, trying again")
				}
				return false, nil
			}
		}
		return true, nil
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, read)
}

// ready returns nil as soon as the caches have synced, whether this process leads or stands by.
func (op *operator) ready() error {
	if !op.synced.Load() {
		return errors.New("the caches have not synced yet")
	}
	return nil
}

// newLock returns the lease that replicas compete for. A process is a new candidate each time that it starts.
func newLock(config *rest.Config, o *options) (resourcelock.Interface, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("read the host name: %w", err)
	}
	client, err := kubernetes.NewForConfig(electionConfig(config))
	if err != nil {
		return nil, fmt.Errorf("set up the client for the lease: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, o.leaderElectNamespace, leaseName,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())})
	if err != nil {
		return nil, fmt.Errorf("set up the lease: %w", err)
	}
	return lock, nil
}
