// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourceclaim is the sync loop of ResourceClaims. What it decides is in pkg/reconcile/resourceclaim.
package resourceclaim

import (
	"context"
	"errors"
	"fmt"

	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/grants"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
	formspeclisters "github.com/formspec/formspec-operator/pkg/generated/listers/formspec/v1alpha1"
)

// Name of the controller: in logs, metrics and events, and as the field manager of what it writes.
const Name = "formspec-resourceclaim"

// Config is what the controller is made from. Every field but Scope and Metrics is needed.
type Config struct {
	// Scope is the namespace that the informers are limited to. Empty: all.
	Scope string

	Client   kubernetes.Interface
	FormSpec versioned.Interface

	Claims     formspecinformers.TypedResourceClaimInformer
	Datastores formspecinformers.TypedDatastoreInformer
	Workspaces formspecinformers.TypedWorkspaceInformer
	// Secrets that carry our label: those of datastores, of claims and of workspaces.
	Secrets coreinformers.TypedSecretInformer
	// Deployments that carry our label.
	Deployments appsinformers.TypedDeploymentInformer

	Judge *grants.Judge
	// Roles makes the claims' own logins, and drops them.
	Roles Roles
	// ClusterName keeps the logins of clusters apart that share a server.
	ClusterName string
	Recorder    events.EventRecorder
	Clock       clock.WithTicker
	Metrics     *worker.Metrics
}

// Controller says what became of each claim, and keeps the claims' own logins.
type Controller struct {
	name     string
	formspec versioned.Interface
	writer   *apply.Writer
	memory   *apply.Memory
	judge    *grants.Judge
	logins   *logins
	roles    Roles
	cluster  string
	recorder events.EventRecorder
	clock    clock.PassiveClock

	claims      formspeclisters.ResourceClaimLister
	datastores  formspeclisters.DatastoreLister
	workspaces  formspeclisters.WorkspaceLister
	secrets     corelisters.SecretLister
	deployments appslisters.DeploymentLister
	claimIndex  cache.TypedIndexer[*v1alpha1.ResourceClaim]
	stores      map[string]apply.Store // by kind: where the events of what we write arrive

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
		name:        name,
		formspec:    config.FormSpec,
		writer:      &apply.Writer{Client: config.Client, Manager: Name},
		memory:      apply.NewMemory(),
		judge:       config.Judge,
		logins:      newLogins(config.Clock),
		roles:       config.Roles,
		cluster:     config.ClusterName,
		recorder:    config.Recorder,
		clock:       config.Clock,
		claims:      config.Claims.Lister(),
		datastores:  config.Datastores.Lister(),
		workspaces:  config.Workspaces.Lister(),
		secrets:     config.Secrets.Lister(),
		deployments: config.Deployments.Lister(),
		claimIndex:  config.Claims.TypedInformer().GetTypedIndexer(),
		stores: map[string]apply.Store{
			"ResourceClaim": config.Claims.Informer().GetStore(),
			"Secret":        config.Secrets.Informer().GetStore(),
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

// Run works until ctx ends, and returns once every started sync and every work on a login has finished.
func (c *Controller) Run(ctx context.Context, workers int) error {
	stop := c.logins.run(context.WithoutCancel(ctx))
	defer stop()
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
	keep(config.Claims.TypedInformer().AddTypedEventHandler(c.claimHandler(), options))
	keep(config.Datastores.TypedInformer().AddTypedEventHandler(c.datastoreHandler(), options))
	keep(config.Secrets.TypedInformer().AddTypedEventHandler(c.secretHandler(), options))
	keep(config.Deployments.TypedInformer().AddTypedEventHandler(c.deploymentHandler(), options))
	keep(config.Workspaces.TypedInformer().AddTypedEventHandler(c.workspaceHandler(), options))
	listed := config.Judge.ListedHandler(c.wakeClaims)
	for _, datastores := range config.Judge.Datastores {
		keep(datastores.AddTypedEventHandler(listed, options))
	}
	errs = append(errs, config.Judge.Keys.OnChange(ctx, c.enqueueAll))
	return errors.Join(errs...)
}
