// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	"github.com/formspec/formspec-operator/pkg/reconcile/hosts"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// slicesByService finds the EndpointSlices of a headless Service, as namespace/name.
const slicesByService = "service"

// podSlices selects the EndpointSlices that Kubernetes makes for our headless Services. Its controller copies the Service's labels, and marks
// the slices of headless ones. So neither the slices that lead to the activator nor anybody else's are in the cache.
const podSlices = v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy + "," + corev1.IsHeadlessService

// informers are everything that the activator knows of the cluster.
type informers struct {
	formspec formspecinformers.SharedInformerFactory
	slices   kubeinformers.SharedInformerFactory
	leases   kubeinformers.SharedInformerFactory
	synced   []cache.DoneChecker
}

func newInformers(config Config) *informers {
	return &informers{
		formspec: formspecinformers.NewSharedInformerFactoryWithOptions(config.FormSpec, 0, formspecinformers.WithTransform(trim)),
		slices: kubeinformers.NewSharedInformerFactoryWithOptions(config.Kube, 0, kubeinformers.WithTransform(trim),
			kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = podSlices })),
		leases: kubeinformers.NewSharedInformerFactoryWithOptions(config.Kube, 0, kubeinformers.WithTransform(trim),
			kubeinformers.WithNamespace(v1alpha1.ActivatorNamespace)),
	}
}

// Start starts the caches, which live until their context ends, and returns once they are full and all of it has arrived, or ctx ends.
func (a *Activator) Start(ctx, informers context.Context) error {
	a.informers.formspec.StartWithContext(informers)
	a.informers.slices.StartWithContext(informers)
	a.informers.leases.StartWithContext(informers)
	if !cache.WaitFor(ctx, "", a.informers.synced...) {
		return context.Cause(ctx)
	}
	return nil
}

// watch registers what happens when something changes, and the indexes.
func (a *Activator) watch(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	options := cache.HandlerOptions{Logger: &logger}
	own := a.informers.formspec.Formspec().V1alpha1()
	endpointSlices := a.informers.slices.Discovery().V1().EndpointSlices().TypedInformer()
	var errs []error
	keep := func(registration cache.ResourceEventHandlerRegistration, err error) {
		if errs = append(errs, err); err == nil {
			a.informers.synced = append(a.informers.synced, registration.HasSyncedChecker())
		}
	}
	errs = append(errs, addWorkspaceIndexes(own.Workspaces().TypedInformer()),
		endpointSlices.AddTypedIndexers(cache.TypedIndexers[*discoveryv1.EndpointSlice]{
			slicesByService: func(slice *discoveryv1.EndpointSlice) ([]string, error) {
				return []string{serviceKey(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])}, nil
			},
		}))
	keep(own.Workspaces().TypedInformer().AddTypedEventHandler(a.workspaceHandler(), options))
	keep(own.ClusterClasses().TypedInformer().AddTypedEventHandler(a.classHandler(), options))
	keep(endpointSlices.AddTypedEventHandler(a.sliceHandler(), options))
	keep(a.informers.leases.Coordination().V1().Leases().TypedInformer().AddTypedEventHandler(a.leaseHandler(), options))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register the handlers of the activator: %w", err)
	}
	return nil
}

func (a *Activator) workspaceHandler() cache.TypedResourceEventHandler[*v1alpha1.Workspace] {
	gone := func(ws *v1alpha1.Workspace) {
		a.routes.changed()
		a.keeper.Forget(ws.UID)
		key := podsKey(ws)
		a.holds.forget(key)
		a.endpointsChanged(key) // of a successor of the same name
	}
	return cache.TypedResourceEventHandlerFuncs[*v1alpha1.Workspace]{
		AddFunc: func(*v1alpha1.Workspace) { a.routes.changed() },
		UpdateFunc: func(old, cur *v1alpha1.Workspace) {
			if old.UID != cur.UID { // the informer missed that it was deleted and created again
				gone(old)
			}
			if hosts.Changed(old, cur) {
				a.routes.changed()
			}
			if !asleep(old) && asleep(cur) {
				a.keeper.Slept(cur.UID)
			}
		},
		DeleteFunc: func(deleted cache.DeletedObject[*v1alpha1.Workspace]) {
			if deleted.OptionalObj != nil {
				gone(deleted.OptionalObj)
			}
		},
	}
}

func (a *Activator) classHandler() cache.TypedResourceEventHandler[*v1alpha1.ClusterClass] {
	return cache.TypedResourceEventHandlerFuncs[*v1alpha1.ClusterClass]{
		AddFunc: func(*v1alpha1.ClusterClass) { a.routes.changed() },
		UpdateFunc: func(old, cur *v1alpha1.ClusterClass) {
			if !slices.Equal(old.Spec.HostSuffixes, cur.Spec.HostSuffixes) {
				a.routes.changed()
			}
		},
		DeleteFunc: func(cache.DeletedObject[*v1alpha1.ClusterClass]) { a.routes.changed() },
	}
}

func (a *Activator) sliceHandler() cache.TypedResourceEventHandler[*discoveryv1.EndpointSlice] {
	changed := func(slice *discoveryv1.EndpointSlice) {
		a.endpointsChanged(cache.NewObjectName(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]))
	}
	return cache.TypedResourceEventHandlerFuncs[*discoveryv1.EndpointSlice]{
		AddFunc:    changed,
		UpdateFunc: func(_, cur *discoveryv1.EndpointSlice) { changed(cur) },
		DeleteFunc: func(deleted cache.DeletedObject[*discoveryv1.EndpointSlice]) {
			if deleted.OptionalObj != nil {
				changed(deleted.OptionalObj)
			}
		},
	}
}

// leaseHandler notes renewals, those of other replicas too. The first list says when each Lease was renewed by the clock of the replica that
// did it; a clock that is wrong costs one renewal that comes a quarter of a window late at most.
func (a *Activator) leaseHandler() cache.TypedResourceEventHandler[*coordinationv1.Lease] {
	return cache.TypedResourceEventHandlerFuncs[*coordinationv1.Lease]{
		AddFunc: func(lease *coordinationv1.Lease) {
			at := time.Now()
			if renewed := lease.Spec.RenewTime; renewed != nil && renewed.Time.Before(at) {
				at = renewed.Time
			}
			a.keeper.Seen(types.UID(lease.Name), at)
		},
		UpdateFunc: func(old, cur *coordinationv1.Lease) {
			if !old.Spec.RenewTime.Equal(cur.Spec.RenewTime) {
				a.keeper.Seen(types.UID(cur.Name), time.Now())
			}
		},
		DeleteFunc: func(deleted cache.DeletedObject[*coordinationv1.Lease]) {
			a.keeper.Lost(types.UID(deleted.GetObjectName().Name))
		},
	}
}

// endpointsChanged hands the Ready endpoints of a Service from the cache to those who wait.
func (a *Activator) endpointsChanged(key cache.ObjectName) {
	a.endpoints.Lock() // so that nobody hands over an older state later
	defer a.endpoints.Unlock()
	list, err := a.slices.ByTypedIndex(slicesByService, serviceKey(key.Namespace, key.Name))
	if err != nil {
		return // only without the index
	}
	var addresses []string
	for _, slice := range list {
		addresses = append(addresses, readyAddresses(slice)...)
	}
	a.holds.set(key, addresses)
}

// readyAddresses returns host:port of each Ready endpoint. An unknown condition counts as Ready, as the API has it.
func readyAddresses(slice *discoveryv1.EndpointSlice) []string {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return nil
	}
	port := httpPort(slice.Ports)
	if port == 0 {
		return nil
	}
	var addresses []string
	for _, e := range slice.Endpoints {
		if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
			addresses = append(addresses, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(port)))) // the others are the same pod's
		}
	}
	return addresses
}

// httpPort returns the port named http, else the first, 0 if there is none.
func httpPort(ports []discoveryv1.EndpointPort) int32 {
	var first int32
	for _, p := range ports {
		switch {
		case p.Port == nil:
		case p.Name != nil && *p.Name == v1alpha1.ActivatorPortName:
			return *p.Port
		case first == 0:
			first = *p.Port
		}
	}
	return first
}

// podsKey names the headless Service of a Workspace's pods.
func podsKey(ws *v1alpha1.Workspace) cache.ObjectName {
	return cache.NewObjectName(ws.Namespace, names.Pods(ws.Name))
}
