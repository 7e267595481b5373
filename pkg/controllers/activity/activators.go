// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/trim"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// activatorSlices knows the activator's ready pods.
type activatorSlices struct {
	clock        clock.PassiveClock
	factory      informers.SharedInformerFactory
	store        cache.Store
	registration cache.ResourceEventHandlerRegistration
	changed      func()

	mu      sync.Mutex // of what follows
	current workspace.Activators
	first   time.Time // since when at least one was ready
}

func newActivatorSlices(ctx context.Context, kube kubernetes.Interface, clk clock.PassiveClock, changed func()) (*activatorSlices, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0,
		informers.WithNamespace(v1alpha1.ActivatorNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = discoveryv1.LabelServiceName + "=" + v1alpha1.ActivatorService
		}),
		informers.WithTransform(trim.EndpointSlice))
	informer := factory.Discovery().V1().EndpointSlices()
	a := &activatorSlices{clock: clk, factory: factory, store: informer.Informer().GetStore(), changed: changed}
	logger := klog.FromContext(ctx)
	var err error
	a.registration, err = informer.TypedInformer().AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*discoveryv1.EndpointSlice]{
		AddFunc:    func(*discoveryv1.EndpointSlice) { a.look() },
		UpdateFunc: func(_, _ *discoveryv1.EndpointSlice) { a.look() },
		DeleteFunc: func(cache.DeletedObject[*discoveryv1.EndpointSlice]) { a.look() },
	}, cache.HandlerOptions{Logger: &logger})
	return a, err
}

// look reads the slices again, and tells if other pods are ready now.
func (a *activatorSlices) look() {
	var all []*discoveryv1.EndpointSlice
	for _, object := range a.store.List() {
		if slice, ok := object.(*discoveryv1.EndpointSlice); ok {
			all = append(all, slice)
		}
	}
	now := gather(all)
	a.mu.Lock()
	before := a.current
	if a.current = now; len(before.Addresses) == 0 && len(now.Addresses) > 0 {
		a.first = a.clock.Now()
	}
	a.mu.Unlock()
	if before.AddressType != now.AddressType || before.Port != now.Port || !slices.Equal(before.Addresses, now.Addresses) {
		a.changed()
	}
}

func (a *activatorSlices) ready() workspace.Activators {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current
}

func (a *activatorSlices) since() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.first
}

// gather finds the ready pods. A Service has one kind of address, and its pods one port, but for moments in which that changes: then the
// kind and port that most pods have count.
func gather(all []*discoveryv1.EndpointSlice) workspace.Activators {
	type kind struct {
		addresses discoveryv1.AddressType
		port      int32
	}
	found := map[kind][]string{}
	for _, slice := range all {
		i := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return ptr.Deref(p.Name, "") == v1alpha1.ActivatorPortName && p.Port != nil
		})
		if i < 0 {
			continue
		}
		k := kind{slice.AddressType, *slice.Ports[i].Port}
		for _, e := range slice.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) && len(e.Addresses) > 0 {
				found[k] = append(found[k], e.Addresses[0])
			}
		}
	}
	if len(found) == 0 {
		return workspace.Activators{}
	}
	most := slices.MaxFunc(slices.Collect(maps.Keys(found)), func(a, b kind) int {
		return cmp.Or(cmp.Compare(len(found[a]), len(found[b])), cmp.Compare(b.addresses, a.addresses), cmp.Compare(b.port, a.port))
	})
	addresses := found[most]
	slices.Sort(addresses)
	return workspace.Activators{AddressType: most.addresses, Addresses: slices.Compact(addresses), Port: most.port}
}
