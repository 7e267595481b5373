// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterclass is the sync loop of ClusterClasses. What it decides is in pkg/reconcile/clusterclass.
package clusterclass

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/controllers/admission"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
	formspeclisters "github.com/formspec/formspec-operator/pkg/generated/listers/formspec/v1alpha1"
)

// Name of the controller: in logs, metrics and events, and as the field manager of what it writes.
const Name = "formspec-clusterclass"

// Config is what the controller is made from. Every field but Metrics and AllowUnpinned is needed.
type Config struct {
	FormSpec versioned.Interface

	ClusterClasses formspecinformers.TypedClusterClassInformer
	Workspaces     []formspecinformers.TypedWorkspaceInformer // one for each scope

	Ledger   *admission.Ledger
	Recorder events.EventRecorder
	Clock    clock.WithTicker
	Metrics  *worker.Metrics

	// AllowUnpinned accepts an image without a version (--dev).
	AllowUnpinned bool
}

// Controller says how ClusterClasses are used, and holds them while they are.
type Controller struct {
	formspec versioned.Interface
	memory   *apply.Memory
	ledger   *admission.Ledger
	recorder events.EventRecorder
	clock    clock.PassiveClock
	unpinned bool

	classes    formspeclisters.ClusterClassLister
	workspaces []workspaceIndexer
	store      apply.Store

	queue  worker.Queue
	worker *worker.Worker
	synced []cache.DoneChecker
}

// New registers the controller with its informers, which must not have started yet. It does nothing before Run.
func New(ctx context.Context, config Config) (*Controller, error) {
	c := &Controller{
		formspec: config.FormSpec,
		memory:   apply.NewMemory(),
		ledger:   config.Ledger,
		recorder: config.Recorder,
		clock:    config.Clock,
		unpinned: config.AllowUnpinned,
		classes:  config.ClusterClasses.Lister(),
		store:    config.ClusterClasses.Informer().GetStore(),
		queue:    worker.NewQueue(Name, config.Clock),
	}
	c.worker = &worker.Worker{
		Name: Name, Queue: c.queue, Sync: c.sync, Crashed: c.crashed, Clock: config.Clock, Metrics: config.Metrics,
	}
	if err := addIndexes(config); err != nil {
		return nil, fmt.Errorf("index for %s: %w", Name, err)
	}
	if err := c.watch(ctx, config); err != nil {
		return nil, fmt.Errorf("register handlers of %s: %w", Name, err)
	}
	c.ledger.Subscribe(c)
	return c, nil
}

// Name of the controller.
func (c *Controller) Name() string { return Name }

// Run works until ctx ends, and returns once every started sync has finished.
func (c *Controller) Run(ctx context.Context, workers int) error {
	return c.worker.Run(ctx, workers, c.synced...)
}

// watch registers what wakes a key. Resync is off: every event is a change.
func (c *Controller) watch(ctx context.Context, config Config) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), Name)
	options := cache.HandlerOptions{Logger: &logger}
	var errs []error
	keep := func(registration cache.ResourceEventHandlerRegistration, err error) {
		if errs = append(errs, err); err == nil {
			c.synced = append(c.synced, registration.HasSyncedChecker())
		}
	}
	keep(config.ClusterClasses.TypedInformer().AddTypedEventHandler(c.classHandler(), options))
	for _, workspaces := range config.Workspaces {
		c.workspaces = append(c.workspaces, workspaces.TypedInformer().GetTypedIndexer())
		keep(workspaces.TypedInformer().AddTypedEventHandler(c.workspaceHandler(), options))
	}
	return errors.Join(errs...)
}
