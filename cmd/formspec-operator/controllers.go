// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers"
	"github.com/formspec/formspec-operator/pkg/controllers/activity"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
	"github.com/formspec/formspec-operator/pkg/controllers/clusterclass"
	"github.com/formspec/formspec-operator/pkg/controllers/datastore"
	"github.com/formspec/formspec-operator/pkg/controllers/grants"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	"github.com/formspec/formspec-operator/pkg/controllers/resourceclaim"
	"github.com/formspec/formspec-operator/pkg/controllers/trim"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	"github.com/formspec/formspec-operator/pkg/controllers/workspace"
	probes "github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/scheme"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	formspecv1alpha1 "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
)

// newControllers returns every controller of the operator, in the order in which they are started. No informer has been started
// yet: a controller asks its scope for the informers that it needs and adds its handlers here.
func newControllers(ctx context.Context, d *dependencies) ([]controllers.Controller, error) {
	var list []controllers.Controller
	reconcileMetrics, err := worker.NewMetrics(d.metrics)
	if err != nil {
		return nil, fmt.Errorf("register the reconcile metrics: %w", err)
	}
	var workspaceInformers []formspecv1alpha1.TypedWorkspaceInformer
	for _, s := range d.scopes {
		workspaceInformers = append(workspaceInformers, s.formspec.Formspec().V1alpha1().Workspaces())
	}
	classes, err := clusterclass.New(ctx, clusterclass.Config{
		FormSpec:       d.write.formspec,
		ClusterClasses: d.cluster.Formspec().V1alpha1().ClusterClasses(),
		Workspaces:     workspaceInformers,
		Ledger:         d.ledger,
		Recorder:       d.events.NewRecorder(scheme.Scheme, clusterclass.Name),
		Clock:          clock.RealClock{},
		Metrics:        reconcileMetrics,
		AllowUnpinned:  d.options.dev,
	})
	if err != nil {
		return nil, err
	}
	list = append(list, classes)
	if d.activity != nil {
		collector, err := activity.NewCollector(ctx, d.activity, activity.CollectorConfig{
			Client:     d.write.kube,
			Workspaces: workspaceInformers,
			Namespaces: d.options.namespaces,
			Clock:      clock.RealClock{},
			Metrics:    reconcileMetrics,
		})
		if err != nil {
			return nil, err
		}
		list = append(list, collector)
	}
	if err := workspace.RegisterMetrics(d.metrics, workspaceInformers); err != nil {
		return nil, fmt.Errorf("register the metrics of workspaces: %w", err)
	}
	for i, s := range d.scopes {
		own := s.formspec.Formspec().V1alpha1()
		judge := d.judge(s)
		datastores, err := datastore.New(ctx, datastore.Config{
			Scope:          s.namespace,
			Client:         d.write.kube,
			FormSpec:       d.write.formspec,
			Datastores:     own.Datastores(),
			Claims:         own.ResourceClaims(),
			Secrets:        s.children.Core().V1().Secrets(),
			SecretMetadata: cache.NewTypedSharedIndexInformer[*metav1.PartialObjectMetadata](s.secrets),
			Keys:           d.keys,
			Pool:           d.pool,
			Recorder:       d.events.NewRecorder(scheme.Scheme, datastore.Name),
			Clock:          clock.RealClock{},
			Metrics:        reconcileMetrics,
		})
		if err != nil {
			return nil, err
		}
		claims, err := resourceclaim.New(ctx, resourceclaim.Config{
			Scope:       s.namespace,
			Client:      d.write.kube,
			FormSpec:    d.write.formspec,
			Claims:      own.ResourceClaims(),
			Datastores:  own.Datastores(),
			Workspaces:  own.Workspaces(),
			Secrets:     s.children.Core().V1().Secrets(),
			Deployments: s.children.Apps().V1().Deployments(),
			Judge:       judge,
			Roles:       d.roles,
			ClusterName: d.options.grantSettings().ClusterName,
			Recorder:    d.events.NewRecorder(scheme.Scheme, resourceclaim.Name),
			Clock:       clock.RealClock{},
			Metrics:     reconcileMetrics,
		})
		if err != nil {
			return nil, err
		}
		workspaces, err := workspace.New(ctx, workspace.Config{
			Scope:             s.namespace,
			Client:            d.write.kube,
			FormSpec:          d.write.formspec,
			Workspaces:        own.Workspaces(),
			Rivals:            slices.Delete(slices.Clone(workspaceInformers), i, i+1),
			Datastores:        own.Datastores(),
			Claims:            own.ResourceClaims(),
			ClusterClasses:    d.cluster.Formspec().V1alpha1().ClusterClasses(),
			Deployments:       s.children.Apps().V1().Deployments(),
			Services:          s.children.Core().V1().Services(),
			EndpointSlices:    s.children.Discovery().V1().EndpointSlices(),
			ConfigMaps:        s.children.Core().V1().ConfigMaps(),
			Secrets:           s.children.Core().V1().Secrets(),
			Pods:              s.children.Core().V1().Pods(),
			Autoscalers:       s.children.Autoscaling().V2().HorizontalPodAutoscalers(),
			DisruptionBudgets: s.children.Policy().V1().PodDisruptionBudgets(),
			Dynamic:           d.write.dynamic,
			ScaledObjects:     s.scaledObjects,
			Ledger:            d.ledger,
			Judge:             judge,
			Restarts:          d.reporting.restartDesk(),
			Activity:          d.activity,
			Recorder:          d.events.NewRecorder(scheme.Scheme, workspace.Name),
			Clock:             clock.RealClock{},
			Metrics:           reconcileMetrics,
			Settings:          d.options.workspaceSettings(),
		})
		if err != nil {
			return nil, err
		}
		list = append(list, datastores, claims, workspaces)
	}
	reporters, err := d.reporting.controllers(ctx, d, reconcileMetrics)
	if err != nil {
		return nil, err
	}
	list = append(list, reporters...)
	return list, controllers.CheckNames(list)
}

// judge decides on the claims of a scope. The Datastores of all scopes remember who has published keys.
func (d *dependencies) judge(of scope) *grants.Judge {
	var others []formspecv1alpha1.TypedDatastoreInformer
	for _, s := range d.scopes {
		if s.namespace != of.namespace {
			others = append(others, s.formspec.Formspec().V1alpha1().Datastores())
		}
	}
	own := of.formspec.Formspec().V1alpha1()
	return grants.NewJudge(d.keys, d.options.grantSettings(), own.ResourceClaims(), own.Datastores(), own.Workspaces(), others...)
}

// dependencies is what controllers are built from.
type dependencies struct {
	options *options
	// write reaches the API server only while this process leads.
	write clients
	// cluster has the informers of cluster-scoped kinds.
	cluster formspecinformers.SharedInformerFactory
	scopes  []scope
	// ledger gives out the slots of ClusterClasses.
	ledger *admission.Ledger
	// keys are the published keys of datastore owners.
	keys *ownerkeys.Keys
	// activity knows when Workspaces had requests. Nil: no activator is to be used.
	activity *activity.Tracker
	// pool probes datastores.
	pool *probes.Pool
	// roles makes the logins of claims.
	roles *roles.Manager
	// reporting is nil without a Control Cluster.
	reporting *reporting
	// events records events, once this process leads.
	events events.EventBroadcaster
	// metrics is served next to the metrics of the libraries.
	metrics metrics.KubeRegistry
}

// scope is what one set of controllers reads from: all namespaces, or one of those that the operator is limited to.
type scope struct {
	namespace string // empty: all
	formspec  formspecinformers.SharedInformerFactory
	children  kubeinformers.SharedInformerFactory // objects that carry our managed-by label only
	secrets   cache.SharedIndexInformer           // metadata of all Secrets
	// scaledObjects are KEDA's. Nil: the cluster has no such kind.
	scaledObjects cache.TypedSharedIndexInformer[*unstructured.Unstructured]
}

func newScopes(read clients, namespaces []string, withKEDA bool) []scope {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	selector := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}).String()
	scopes := make([]scope, 0, len(namespaces))
	for _, namespace := range namespaces {
		scopes = append(scopes, scope{
			namespace: namespace,
			formspec: formspecinformers.NewSharedInformerFactoryWithOptions(read.formspec, 0,
				formspecinformers.WithNamespace(namespace),
				formspecinformers.WithTransform(trim.Own)),
			children: kubeinformers.NewSharedInformerFactoryWithOptions(read.kube, 0,
				kubeinformers.WithNamespace(namespace),
				kubeinformers.WithTransform(trim.Children(workspace.Name, datastore.Name, resourceclaim.Name)),
				kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector })),
			secrets: secretMetadata(read, namespace),
		})
		if withKEDA {
			scopes[len(scopes)-1].scaledObjects = scaledObjects(read, namespace, selector)
		}
	}
	return scopes
}

// secretMetadata tells that a Secret has come, changed or gone, and nothing of what is in it.
func secretMetadata(read clients, namespace string) cache.SharedIndexInformer {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	informer := metadatainformer.NewFilteredMetadataInformer(read.metadata, secrets, namespace, 0, byNamespace, nil).Informer()
	utilruntime.Must(informer.SetTransform(trim.Metadata)) // it fails for an informer that has started only
	return informer
}

func newClusterInformers(read clients) formspecinformers.SharedInformerFactory {
	return formspecinformers.NewSharedInformerFactoryWithOptions(read.formspec, 0, formspecinformers.WithTransform(trim.Own))
}

// factory is what all generated informer factories have in common.
type factory interface {
	StartWithContext(ctx context.Context)
	WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult
	Shutdown()
}

func (d *dependencies) factories() []factory {
	list := []factory{d.cluster}
	for _, s := range d.scopes {
		list = append(list, s.formspec, s.children)
	}
	return list
}
