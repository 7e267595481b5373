// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// activator plays the activator, which all Workspaces of the control plane share: its tests are parts of TestSleep.
type activator struct {
	*scenario
}

// economy is a class whose Workspaces sleep after that long without a request.
func economy(window time.Duration) func(*v1alpha1.ClusterClass) {
	return func(class *v1alpha1.ClusterClass) {
		class.Spec.Scaling.ScaleToZero = true
		class.Spec.Scaling.IdleAfter = &metav1.Duration{Duration: window}
	}
}

// activator makes activator pods of these addresses ready until the test ends.
func (s *scenario) activator(addresses ...string) *activator {
	s.Helper()
	a := &activator{s}
	_, err := a.slices().Create(s.Context(), a.slice(addresses...), metav1.CreateOptions{})
	s.must("create the activator's EndpointSlice", err)
	s.Cleanup(func() { a.vanish() })
	return a
}

const activatorSlice = v1alpha1.ActivatorService + "-abcde"

func (a *activator) slices() interface {
	Create(context.Context, *discoveryv1.EndpointSlice, metav1.CreateOptions) (*discoveryv1.EndpointSlice, error)
	Update(context.Context, *discoveryv1.EndpointSlice, metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
} {
	return a.kube.DiscoveryV1().EndpointSlices(v1alpha1.ActivatorNamespace)
}

func (a *activator) slice(addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: activatorSlice, Labels: map[string]string{discoveryv1.LabelServiceName: v1alpha1.ActivatorService}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(v1alpha1.ActivatorPortName), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	return slice
}

// pods says which activator pods are ready from now on.
func (a *activator) pods(addresses ...string) {
	a.Helper()
	_, err := a.slices().Update(a.Context(), a.slice(addresses...), metav1.UpdateOptions{})
	a.must("update the activator's EndpointSlice", err)
}

func (a *activator) vanish() {
	err := a.slices().Delete(context.Background(), activatorSlice, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		a.Errorf("delete the activator's EndpointSlice: %v", err)
	}
}

// request is what an activator tells of one: it renews the Lease of the Workspace, or creates it.
func (a *activator) request(w *tenant) {
	a.Helper()
	a.must("renew the Lease", a.tryRequest(w.get().UID))
}

func (a *activator) tryRequest(uid types.UID) error {
	ctx, cancel := context.WithTimeout(a.Context(), 5*time.Second)
	defer cancel()
	leases := a.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace)
	now := time.Now().UTC().Format(metav1.RFC3339Micro)
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":"activator-test","renewTime":%q}}`, now)
	_, err := leases.Patch(ctx, string(uid), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: string(uid)}}, metav1.CreateOptions{})
	}
	return err
}

// keepBusy renews the Lease of a Workspace every period until the returned function is called. It goes on through outages.
func (a *activator) keepBusy(w *tenant, period time.Duration) (stop func()) {
	uid, done, ended := w.get().UID, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for {
			_ = a.tryRequest(uid) // the API server may be away
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// asleep waits until the Workspace sleeps, with everything but pods.
func (w *tenant) asleep() {
	w.Helper()
	w.eventually("the Workspace sleeps", w.asleepNow)
}

func (w *tenant) asleepNow() error {
	ws := w.get()
	if err := condition(ws, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAsleep); err != nil {
		return err
	}
	if d := w.deployment(); *d.Spec.Replicas != 0 || d.Status.Replicas != 0 || ws.Status.Phase != v1alpha1.PhaseSleeping {
		return fmt.Errorf("%d replicas are asked for, there are %d, the phase is %s", *d.Spec.Replicas, d.Status.Replicas, ws.Status.Phase)
	}
	return nil
}

// awake waits until the Workspace runs with that many replicas.
func (w *tenant) awake(replicas int32) {
	w.Helper()
	w.eventually("the Workspace is awake", func() error {
		if err := condition(w.get(), v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAvailable); err != nil {
			return err
		}
		return w.hasReplicas(replicas)
	})
}

// route is where the Workspace's Service leads: whether it has a selector, what our slice and those of Kubernetes' controllers have, and
// whether there are Endpoints.
type route struct {
	selector  bool
	ours      []string // nil: there is no slice of ours
	theirs    int
	endpoints bool
	pods      bool // there is the headless Service
}

func (w *tenant) route() route {
	w.Helper()
	name := names.Deployment(w.name)
	service, err := w.kube.CoreV1().Services(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	w.must("get the Service", err)
	all, err := w.kube.DiscoveryV1().EndpointSlices(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	w.must("list the EndpointSlices", err)
	r := route{selector: len(service.Spec.Selector) > 0}
	for _, slice := range all.Items {
		if slice.Labels[discoveryv1.LabelManagedBy] != v1alpha1.ManagedBy {
			r.theirs++
			continue
		}
		r.ours = []string{}
		for _, e := range slice.Endpoints {
			r.ours = append(r.ours, e.Addresses...)
		}
	}
	_, err = w.kube.CoreV1().Endpoints(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	r.endpoints = !apierrors.IsNotFound(err)
	_, err = w.kube.CoreV1().Services(w.namespace).Get(w.Context(), names.Pods(w.name), metav1.GetOptions{})
	r.pods = !apierrors.IsNotFound(err)
	return r
}

// passes waits until all requests pass the activator pods of these addresses.
func (w *tenant) passes(addresses ...string) {
	w.Helper()
	w.eventually("all requests pass the activator", func() error {
		if r := w.route(); r.selector || r.theirs > 0 || r.endpoints || !r.pods || !slices.Equal(r.ours, addresses) {
			return fmt.Errorf("the route is %+v", r)
		}
		return nil
	})
}

// direct waits until all requests go to the pods.
func (w *tenant) direct(podsService bool) {
	w.Helper()
	w.eventually("all requests go to the pods", func() error {
		if r := w.route(); !r.selector || r.theirs == 0 || r.ours != nil || r.pods != podsService {
			return fmt.Errorf("the route is %+v", r)
		}
		return nil
	})
}
