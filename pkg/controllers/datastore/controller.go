// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datastore is the sync loop of Datastores. What it decides is in pkg/reconcile/datastore; drivers are in pkg/datastore.
package datastore

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
	formspeclisters "github.com/formspec/formspec-operator/pkg/generated/listers/formspec/v1alpha1"
)

// Name of the controller: in logs, metrics and events, and as the field manager of what it writes.
const Name = "formspec-datastore"

// Config is what the controller is made from. Every field but Scope and Metrics is needed.
type Config struct {
	// Scope is the namespace that the informers are limited to. Empty: all.
	Scope string

	Client   kubernetes.Interface
	FormSpec versioned.Interface

	Datastores formspecinformers.TypedDatastoreInformer
	Claims     formspecinformers.TypedResourceClaimInformer
	// Secrets that carry our label: the managed ones.
	Secrets coreinformers.TypedSecretInformer
	// SecretMetadata is of all Secrets, without their data.
	SecretMetadata cache.TypedSharedIndexInformer[*metav1.PartialObjectMetadata]

	Keys     *ownerkeys.Keys
	Pool     *datastore.Pool
	Recorder events.EventRecorder
	Clock    clock.WithTicker
	Metrics  *worker.Metrics
}

// Controller validates Datastores and keeps their credentials.
type Controller struct {
	name     string
	client   kubernetes.Interface
	formspec versioned.Interface
	writer   *apply.Writer
	memory   *apply.Memory
	offers   *offers
	keys     *ownerkeys.Keys
	pool     *datastore.Pool
	recorder events.EventRecorder
	clock    clock.PassiveClock

	datastores     formspeclisters.DatastoreLister
	secrets        corelisters.SecretLister
	datastoreIndex cache.TypedIndexer[*v1alpha1.Datastore]
	claimIndex     cache.TypedIndexer[*v1alpha1.ResourceClaim]
	sources        cache.TypedIndexer[*metav1.PartialObjectMetadata]
	stores         map[string]apply.Store // by kind: where the events of what we write arrive

	queue  worker.Queue
	worker *worker.Worker
	synced []cache.DoneChecker
}

// New registers the controller with its informers, which must not have started yet. It does nothing before Run.
func New(ctx context.Context, config Config) (*Controller, error) {
	name := Name
	if config.Scope != "" {
		name += "-" + config.Scope
	}
	c := &Controller{
		name:     name,
		client:   config.Client,
		formspec: config.FormSpec,
		writer:   &apply.Writer{Client: config.Client, Manager: Name},
		memory:   apply.NewMemory(),
		offers:   newOffers(),
		keys:     config.Keys,
		pool:     config.Pool,
		recorder: config.Recorder,
		clock:    config.Clock,

		datastores:     config.Datastores.Lister(),
		secrets:        config.Secrets.Lister(),
		datastoreIndex: config.Datastores.TypedInformer().GetTypedIndexer(),
		claimIndex:     config.Claims.TypedInformer().GetTypedIndexer(),
		sources:        config.SecretMetadata.GetTypedIndexer(),
		stores: map[string]apply.Store{
			"Datastore": config.Datastores.Informer().GetStore(),
			"Secret":    config.Secrets.Informer().GetStore(),
		},
		queue: worker.NewQueue(name, config.Clock),
	}
	c.worker = &worker.Worker{
		Name: name, Queue: c.queue, Sync: c.sync, Crashed: c.crashed, Clock: config.Clock, Metrics: config.Metrics,
	}
	if err := addIndexes(config); err != nil {
		return nil, fmt.Errorf("index for %s: %w", name, err)
	}
	if err := c.watch(ctx, config); err != nil {
		return nil, fmt.Errorf("register handlers of %s: %w", name, err)
	}
	return c, nil
}

// Name of the controller, with its scope.
func (c *Controller) Name() string { return c.name }

// Run works until ctx ends, and returns once every started sync has finished.
func (c *Controller) Run(ctx context.Context, workers int) error {
	return c.worker.Run(ctx, workers, c.synced...)
}

// watch registers what wakes a key. Resync is off: every event is a change.
func (c *Controller) watch(ctx context.Context, config Config) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), c.name)
	options := cache.HandlerOptions{Logger: &logger}
	var errs []error
	keep := func(registration cache.ResourceEventHandlerRegistration, err error) {
		if errs = append(errs, err); err == nil {
			c.synced = append(c.synced, registration.HasSyncedChecker())
		}
	}
	keep(config.Datastores.TypedInformer().AddTypedEventHandler(c.datastoreHandler(), options))
	keep(config.Claims.TypedInformer().AddTypedEventHandler(c.claimHandler(), options))
	keep(config.Secrets.TypedInformer().AddTypedEventHandler(c.managedHandler(), options))
	keep(config.SecretMetadata.AddTypedEventHandler(c.sourceHandler(), options))
	errs = append(errs, config.Keys.OnChange(ctx, c.enqueueAll))
	return errors.Join(errs...)
}
