// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workspace is the sync loop of Workspaces. What it decides is in pkg/reconcile/workspace.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	autoscalinginformers "k8s.io/client-go/informers/autoscaling/v2"
	coreinformers "k8s.io/client-go/informers/core/v1"
	discoveryinformers "k8s.io/client-go/informers/discovery/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	autoscalinglisters "k8s.io/client-go/listers/autoscaling/v2"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/activity"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/grants"
	"github.com/formspec/formspec-operator/pkg/controllers/restarts"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
	formspeclisters "github.com/formspec/formspec-operator/pkg/generated/listers/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// Name of the controller: in logs, metrics and events, and as the field manager of what it writes.
const Name = workspace.Manager

// Config is what the controller is made from. Every field but Scope, Rivals, Activity, Restarts, Dynamic, ScaledObjects and Metrics is
// needed.
type Config struct {
	// Scope is the namespace that the informers are limited to. Empty: all.
	Scope string

	Client   kubernetes.Interface
	Dynamic  dynamic.Interface // nil without ScaledObjects
	FormSpec versioned.Interface

	Workspaces formspecinformers.TypedWorkspaceInformer
	// Rivals are the Workspaces of other scopes, which may claim the same hosts.
	Rivals            []formspecinformers.TypedWorkspaceInformer
	Datastores        formspecinformers.TypedDatastoreInformer
	Claims            formspecinformers.TypedResourceClaimInformer
	ClusterClasses    formspecinformers.TypedClusterClassInformer
	Deployments       appsinformers.TypedDeploymentInformer
	Services          coreinformers.TypedServiceInformer
	EndpointSlices    discoveryinformers.TypedEndpointSliceInformer
	ConfigMaps        coreinformers.TypedConfigMapInformer
	Secrets           coreinformers.TypedSecretInformer
	Pods              coreinformers.TypedPodInformer
	Autoscalers       autoscalinginformers.TypedHorizontalPodAutoscalerInformer
	DisruptionBudgets policyinformers.TypedPodDisruptionBudgetInformer
	ScaledObjects     cache.TypedSharedIndexInformer[*unstructured.Unstructured] // nil: the cluster has no HTTPScaledObject

	Ledger   *admission.Ledger
	Judge    *grants.Judge
	Activity *activity.Tracker // nil: no Workspace sleeps
	Restarts *restarts.Desk
	Recorder events.EventRecorder
	Clock    clock.WithTicker
	Metrics  *worker.Metrics
	Settings workspace.Settings
}

// Controller brings Workspaces to what they should be.
type Controller struct {
	name     string
	client   kubernetes.Interface
	formspec versioned.Interface
	writer   *apply.Writer
	memory   *apply.Memory
	ledger   *admission.Ledger
	judge    *grants.Judge
	activity *activity.Tracker
	restarts *restarts.Desk
	recorder events.EventRecorder
	clock    clock.PassiveClock
	settings workspace.Settings

	workspaces        formspeclisters.WorkspaceLister
	classes           formspeclisters.ClusterClassLister
	datastores        formspeclisters.DatastoreLister
	deployments       appslisters.DeploymentLister
	services          corelisters.ServiceLister
	endpointSlices    discoverylisters.EndpointSliceLister
	configMaps        corelisters.ConfigMapLister
	secrets           corelisters.SecretLister
	autoscalers       autoscalinglisters.HorizontalPodAutoscalerLister
	disruptionBudgets policylisters.PodDisruptionBudgetLister

	workspaceIndex workspaceIndexer
	rivals         []workspaceIndexer // of all scopes
	sliceIndex     sliceIndexer
	scaledObjects  cache.Store // nil: the cluster has no HTTPScaledObject
	claimIndex     cache.TypedIndexer[*v1alpha1.ResourceClaim]
	podIndex       podIndexer
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
		writer:   &apply.Writer{Client: config.Client, Dynamic: config.Dynamic, Manager: Name},
		memory:   apply.NewMemory(),
		ledger:   config.Ledger,
		judge:    config.Judge,
		activity: config.Activity,
		restarts: config.Restarts,
		recorder: config.Recorder,
		clock:    config.Clock,
		settings: config.Settings,

		workspaces:        config.Workspaces.Lister(),
		classes:           config.ClusterClasses.Lister(),
		datastores:        config.Datastores.Lister(),
		deployments:       config.Deployments.Lister(),
		services:          config.Services.Lister(),
		endpointSlices:    config.EndpointSlices.Lister(),
		configMaps:        config.ConfigMaps.Lister(),
		secrets:           config.Secrets.Lister(),
		autoscalers:       config.Autoscalers.Lister(),
		disruptionBudgets: config.DisruptionBudgets.Lister(),

		workspaceIndex: config.Workspaces.TypedInformer().GetTypedIndexer(),
		rivals:         []workspaceIndexer{config.Workspaces.TypedInformer().GetTypedIndexer()},
		sliceIndex:     config.EndpointSlices.TypedInformer().GetTypedIndexer(),
		claimIndex:     config.Claims.TypedInformer().GetTypedIndexer(),
		podIndex:       config.Pods.TypedInformer().GetTypedIndexer(),
		stores: map[string]apply.Store{
			"Workspace":               config.Workspaces.Informer().GetStore(),
			"Deployment":              config.Deployments.Informer().GetStore(),
			"Service":                 config.Services.Informer().GetStore(),
			"EndpointSlice":           config.EndpointSlices.Informer().GetStore(),
			"ConfigMap":               config.ConfigMaps.Informer().GetStore(),
			"Secret":                  config.Secrets.Informer().GetStore(),
			"HorizontalPodAutoscaler": config.Autoscalers.Informer().GetStore(),
			"PodDisruptionBudget":     config.DisruptionBudgets.Informer().GetStore(),
		},
		queue: worker.NewQueue(name, config.Clock),
	}
	c.worker = &worker.Worker{
		Name: name, Queue: c.queue, Sync: c.sync, Crashed: c.crashed, Clock: config.Clock, Metrics: config.Metrics,
	}
	for _, workspaces := range config.Rivals {
		c.rivals = append(c.rivals, workspaces.TypedInformer().GetTypedIndexer())
	}
	if config.ScaledObjects != nil {
		c.scaledObjects = config.ScaledObjects.GetStore()
		c.stores[keda.Kind] = config.ScaledObjects.GetStore()
	}
	if err := addIndexes(config); err != nil {
		return nil, fmt.Errorf("index for %s: %w", Name, err)
	}
	if err := c.watch(ctx, config); err != nil {
		return nil, fmt.Errorf("register handlers of %s: %w", Name, err)
	}
	c.ledger.Subscribe(c)
	c.restarts.Subscribe(c)
	if c.activity != nil {
		c.activity.Subscribe(c)
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
	logger := klog.LoggerWithName(klog.FromContext(ctx), Name)
	options := cache.HandlerOptions{Logger: &logger}
	var errs []error
	keep := func(registration cache.ResourceEventHandlerRegistration, err error) {
		if errs = append(errs, err); err == nil {
			c.synced = append(c.synced, registration.HasSyncedChecker())
		}
	}
	keep(config.Workspaces.TypedInformer().AddTypedEventHandler(c.workspaceHandler(), options))
	keep(config.ClusterClasses.TypedInformer().AddTypedEventHandler(c.classHandler(), options))
	keep(config.Datastores.TypedInformer().AddTypedEventHandler(c.datastoreHandler(), options))
	keep(config.Claims.TypedInformer().AddTypedEventHandler(c.claimHandler(), options))
	keep(config.Deployments.TypedInformer().AddTypedEventHandler(c.deploymentHandler(), options))
	keep(config.Services.TypedInformer().AddTypedEventHandler(childHandler(c, anyChange[*corev1.Service]), options))
	keep(config.EndpointSlices.TypedInformer().AddTypedEventHandler(c.sliceHandler(), options))
	keep(config.ConfigMaps.TypedInformer().AddTypedEventHandler(childHandler(c, anyChange[*corev1.ConfigMap]), options))
	keep(config.Secrets.TypedInformer().AddTypedEventHandler(c.secretHandler(), options))
	keep(config.Autoscalers.TypedInformer().AddTypedEventHandler(childHandler(c, autoscalerUrgency), options))
	keep(config.DisruptionBudgets.TypedInformer().AddTypedEventHandler(childHandler(c, disruptionBudgetUrgency), options))
	keep(config.Pods.TypedInformer().AddTypedEventHandler(c.podHandler(), options))
	if config.ScaledObjects != nil {
		keep(config.ScaledObjects.AddTypedEventHandler(childHandler(c, scaledObjectUrgency), options))
	}
	for _, workspaces := range slices.Concat(config.Rivals, []formspecinformers.TypedWorkspaceInformer{config.Workspaces}) {
		keep(workspaces.TypedInformer().AddTypedEventHandler(c.hostHandler(), options))
	}
	listed := config.Judge.ListedHandler(func(ds *v1alpha1.Datastore) { c.wakeClaimants(ds.Namespace, ds.Name) })
	for _, datastores := range config.Judge.Datastores {
		keep(datastores.AddTypedEventHandler(listed, options))
	}
	errs = append(errs, config.Judge.Keys.OnChange(ctx, c.ownerKeysChanged))
	return errors.Join(errs...)
}
