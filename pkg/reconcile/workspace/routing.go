// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/subset"
)

// Activators are the activator's ready pods.
type Activators struct {
	// AddressType of the addresses.
	AddressType discoveryv1.AddressType
	// Addresses, sorted. Empty: none is ready.
	Addresses []string
	// Port on which they take requests.
	Port int32
}

// cleanUpDelay is how soon after the selector was taken off the endpoints of Kubernetes' own controllers are deleted: they must have seen
// that, or would make them again.
const cleanUpDelay = time.Second

// route leads requests to the activator or to the pods. Either way is there before the other one goes. Source: contract §6.
func (in Input) route(p *Plan, asleep bool) {
	c := in.Children
	if in.sleepable() || in.hasSlice() {
		apply(p, in.Now, c.PodsService, in.podsService())
	}
	if in.sleepable() && (len(in.Traffic.Activators.Addresses) > 0 || asleep) {
		if c.Slice.Exists() || !in.refused("Service", names.Pods(in.Workspace.Name)) {
			apply(p, in.Now, c.Slice, in.slice()) // the activator finds the pods by the other Service
		}
		if in.detourRefused() {
			return // requests go where they went
		}
		if apply(p, in.Now, c.Service, in.service(nil)) != nil && c.Service.Exists() {
			p.again(cleanUpDelay)
		}
		in.cleanUp(p)
		return
	}
	apply(p, in.Now, c.Service, in.service(in.selectorLabels()))
	switch {
	case !in.hasSlice():
	case in.arrived() && !in.refused("Service", names.Deployment(in.Workspace.Name)):
		remove(p, in.Workspace, "EndpointSlice", c.Slice)
	case len(in.Traffic.Activators.Addresses) > 0:
		apply(p, in.Now, c.Slice, in.slice())
	}
	if !in.sleepable() && !in.hasSlice() {
		remove(p, in.Workspace, "Service", c.PodsService)
	}
}

// hasSlice says whether the Service may still lead to the activator. A foreign slice under that name does not count.
func (in Input) hasSlice() bool {
	return mine(in.Workspace, in.Children.Slice)
}

// detourRefused says that the way by the activator cannot be laid.
func (in Input) detourRefused() bool {
	return in.refused("EndpointSlice", names.Activator(in.Workspace.Name)) || in.refused("Service", names.Pods(in.Workspace.Name))
}

// cleanUp deletes what Kubernetes' own controllers leave behind when a Service loses its selector, once the cache shows that it has. The
// Endpoints go first: where they are mirrored, their slices would come back. There is no cache of Endpoints; the slices tell that there
// is something to delete, for a Service with a selector always has one.
func (in Input) cleanUp(p *Plan) {
	c := in.Children
	if len(c.Theirs) == 0 || !c.Service.Exists() || len(c.Service.Live.Spec.Selector) > 0 {
		return
	}
	p.again(cleanUpDelay) // to see that they are gone
	p.Delete = append(p.Delete, reconcile.Reference{Kind: "Endpoints", Name: c.Service.Live.Name})
	for _, slice := range c.Theirs {
		p.Delete = append(p.Delete, reconcile.Reference{Kind: "EndpointSlice", Name: slice.Name, UID: slice.UID})
	}
}

// arrived says whether requests reach the pods without the activator, or nobody holds them until they do.
func (in Input) arrived() bool {
	ready := func(e discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Ready, true) }
	for _, slice := range in.Children.Theirs {
		if slices.ContainsFunc(slice.Endpoints, ready) {
			return true
		}
	}
	d := in.Children.Deployment
	return len(in.Traffic.Activators.Addresses) == 0 && (!d.Exists() || d.Live.Status.ReadyReplicas == 0)
}

// podsService is the headless Service by which the activator finds the pods.
func (in Input) podsService() *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(names.Pods(in.Workspace.Name), in.Workspace.Namespace).
		WithLabels(in.labels()).WithOwnerReferences(in.owner()).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone).
			WithSelector(in.selectorLabels()).
			WithPorts(corev1ac.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).
				WithPort(80).WithTargetPort(intstr.FromString(portName))))
}

// slice leads the Service to the activator pods of this workspace. Without any it stays as it is, but empty.
func (in Input) slice() *discoveryv1ac.EndpointSliceApplyConfiguration {
	to := in.Traffic.Activators
	if live := in.Children.Slice; len(to.Addresses) == 0 && live.Exists() {
		to.AddressType = live.Live.AddressType
		if ports := live.Live.Ports; len(ports) == 1 {
			to.Port = ptr.Deref(ports[0].Port, 0)
		}
	}
	if to.AddressType == "" {
		to.AddressType = discoveryv1.AddressTypeIPv4
	}
	labels := maps.Clone(in.labels())
	labels[discoveryv1.LabelServiceName] = names.Deployment(in.Workspace.Name)
	labels[discoveryv1.LabelManagedBy] = v1alpha1.ManagedBy
	slice := discoveryv1ac.EndpointSlice(names.Activator(in.Workspace.Name), in.Workspace.Namespace).
		WithLabels(labels).WithOwnerReferences(in.owner()).
		WithAddressType(to.AddressType)
	for _, address := range subset.Pick(string(in.Workspace.UID), to.Addresses, subset.Size) {
		slice.WithEndpoints(discoveryv1ac.Endpoint().WithAddresses(address).
			WithConditions(discoveryv1ac.EndpointConditions().WithReady(true)))
	}
	if to.Port != 0 {
		slice.WithPorts(discoveryv1ac.EndpointPort().WithName(portName).WithProtocol(corev1.ProtocolTCP).WithPort(to.Port))
	}
	return slice
}
