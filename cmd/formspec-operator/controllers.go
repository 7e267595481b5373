// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
)

// newControllers returns every controller of the operator, in the order in which they are started. No informer has been started
// yet: a controller asks its scope for the informers that it needs and adds its handlers here.
func newControllers(_ context.Context, _ *dependencies) ([]controllers.Controller, error) {
	var list []controllers.Controller
	return list, controllers.CheckNames(list)
}

// dependencies is what controllers are built from.
type dependencies struct {
	options *options
	// write reaches the API server only while this process leads.
	write clients
	// cluster has the informers of cluster-scoped kinds.
	cluster formspecinformers.SharedInformerFactory
	scopes  []scope
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
}

// controllerName tells the controllers of several scopes apart.
func (s scope) controllerName(base string) string {
	if s.namespace == "" {
		return base
	}
	return base + "-" + s.namespace
}

// transforms say what caches keep of an object. A nil one keeps all of it.
type transforms struct {
	own, children cache.TransformFunc
}

func newScopes(read clients, namespaces []string, keep transforms) []scope {
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
				formspecinformers.WithTransform(keep.own)),
			children: kubeinformers.NewSharedInformerFactoryWithOptions(read.kube, 0,
				kubeinformers.WithNamespace(namespace),
				kubeinformers.WithTransform(keep.children),
				kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector })),
		})
	}
	return scopes
}

func newClusterInformers(read clients, keep transforms) formspecinformers.SharedInformerFactory {
	return formspecinformers.NewSharedInformerFactoryWithOptions(read.formspec, 0, formspecinformers.WithTransform(keep.own))
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
