// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownerkeys reads the public keys of datastore owners from the ConfigMap formspec-owner-keys.
package ownerkeys

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Keys is a view of the ConfigMap. Owner names are its data keys; each value has one hex public key a line.
type Keys struct {
	namespace string
	factory   informers.SharedInformerFactory
	informer  coreinformers.TypedConfigMapInformer
	lister    corelisters.ConfigMapLister
	changed   []func()
	first     sync.WaitGroup // of who waits for the first reading
}

// New returns the view of the ConfigMap in the operator's own namespace. It is empty before Start.
func New(kube kubernetes.Interface, namespace string) *Keys {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.OwnerKeysConfigMap).String()
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = only }))
	informer := factory.Core().V1().ConfigMaps()
	return &Keys{namespace: namespace, factory: factory, informer: informer, lister: informer.Lister()}
}

// OnChange registers what is called when the keys have changed, appeared or gone, or the first reading finds none, from any goroutine.
// It must be called before Start.
func (k *Keys) OnChange(ctx context.Context, changed func()) error {
	logger := klog.FromContext(ctx)
	_, err := k.informer.TypedInformer().AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*corev1.ConfigMap]{
		AddFunc: func(*corev1.ConfigMap) { changed() },
		UpdateFunc: func(old, cur *corev1.ConfigMap) {
			if !maps.Equal(old.Data, cur.Data) || !maps.EqualFunc(old.BinaryData, cur.BinaryData, bytes.Equal) {
				changed()
			}
		},
		DeleteFunc: func(cache.DeletedObject[*corev1.ConfigMap]) { changed() },
	}, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return fmt.Errorf("watch %s: %w", v1alpha1.OwnerKeysConfigMap, err)
	}
	k.changed = append(k.changed, changed)
	return nil
}

// Start begins to read. Nobody waits for it: while the ConfigMap cannot be read, Published says so.
func (k *Keys) Start(ctx context.Context) {
	k.factory.StartWithContext(ctx)
	k.first.Go(func() {
		k.Wait(ctx)
		if _, absent := k.Published(); absent { // of which no event tells
			for _, changed := range k.changed {
				changed()
			}
		}
	})
}

// Shutdown waits until reading has ended.
func (k *Keys) Shutdown() {
	k.factory.Shutdown()
	k.first.Wait()
}

// Published returns the ConfigMap. Nil: it is absent, or it could not be read, which is an outage and not a revocation.
func (k *Keys) Published() (config *corev1.ConfigMap, absent bool) {
	synced := k.informer.Informer().HasSynced() // asked first: what is missing after that is absent
	config, err := k.lister.ConfigMaps(k.namespace).Get(v1alpha1.OwnerKeysConfigMap)
	if err != nil {
		return nil, synced && apierrors.IsNotFound(err)
	}
	return config, false // an event tells of it, which can come before HasSynced does
}

// Wait returns when the ConfigMap was read for the first time, or ctx ends.
func (k *Keys) Wait(ctx context.Context) {
	cache.WaitFor(ctx, "", k.informer.Informer().HasSyncedChecker())
}
