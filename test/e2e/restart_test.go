// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/subset"
)

// All activators are replaced while thousands of Workspaces sleep behind them. Nobody who is awake loses a request, and those who wake up
// meanwhile are answered.
func TestActivatorsRestart(t *testing.T) {
	s := given(t)
	sleeping := either(2000, 50)
	class := s.class(economy(time.Hour))
	shop := s.workspace("shop", class).serving().watched()
	var sleepers []*tenant
	for i := range 4 {
		sleepers = append(sleepers, s.workspace("sleeper-"+strconv.Itoa(i), class))
	}
	for _, w := range sleepers {
		w.serving().watched()
	}
	s.toSleep(sleepers...)
	s.crowd(sleeping, class)
	writes := s.countSlices()
	traffic := shop.traffic(4)

	// when
	_, err := s.cluster.kubectl(t.Context(), "rollout", "restart", "-n", v1alpha1.ActivatorNamespace, "deployment", v1alpha1.ActivatorService)
	s.must("restart the activators", err)
	answered := make(chan error, 1)
	go func() {
		var errs []error
		for _, w := range sleepers {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, _, err := get(ctx, w.client(), w.url("/"))
			cancel()
			errs = append(errs, err)
		}
		answered <- errors.Join(errs...)
	}()
	_, err = s.cluster.kubectl(t.Context(), "rollout", "status", "-n", v1alpha1.ActivatorNamespace, "deployment", v1alpha1.ActivatorService, "--timeout=5m")
	s.must("wait for the restart", err)
	s.activatorsOnly(2)

	// then
	s.must("wake Workspaces during the restart", <-answered)
	s.led()
	traffic.unbroken()
	t.Logf("a rolling restart of 2 activators with %d sleeping Workspaces cost %d writes of EndpointSlices", sleeping, writes.Load())

	if long() {
		s.oneOfFive(writes, sleeping+5)
	}
}

// oneOfFive lets one of more activators die than each Workspace needs. It concerns those only that were led to it, or are led to its successor.
func (s *scenario) oneOfFive(writes *atomic.Int64, workspaces int) {
	s.Helper()
	s.scaleActivators(5)
	s.led()
	before := writes.Load()
	s.kill(s.running(v1alpha1.ActivatorNamespace, activatorSelector, 5)[0], 4)
	s.led()
	cost := writes.Load() - before
	s.Logf("the death of one of 5 activators and its successor cost %d writes for %d Workspaces", cost, workspaces)
	if expected := int64(2*subset.Size*workspaces) / 5; cost > expected*5/4 {
		s.Errorf("that should be about %d", expected)
	}
}

// crowd creates Workspaces that have slept from the beginning, and waits until they are led to the activator.
func (s *scenario) crowd(n int, class *v1alpha1.ClusterClass) {
	s.Helper()
	asleep := func(ws *v1alpha1.Workspace) { ws.Annotations = map[string]string{v1alpha1.AnnotationIdle: "true"} }
	for i := range n {
		s.workspace("crowd-"+strconv.Itoa(i), class, simulated, asleep)
	}
	s.eventually("all of them sleep", func() error {
		list, err := s.formspec.FormspecV1alpha1().Workspaces(s.namespace).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		asleep := 0
		for _, ws := range list.Items {
			if ws.Status.Phase == v1alpha1.PhaseSleeping && ws.Spec.Environment == simulatedEnvironment {
				asleep++
			}
		}
		if asleep != n {
			return fmt.Errorf("%d of %d do", asleep, n)
		}
		return nil
	})
	s.led()
}

// ours selects the EndpointSlices that lead to activators.
var ours = metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + v1alpha1.ManagedBy}

// led waits until each Workspace is led to as many of the present activators as it should be.
func (s *scenario) led() {
	s.Helper()
	s.eventually("all Workspaces are led to the present activators", func() error {
		pods, err := s.kube.CoreV1().Pods(v1alpha1.ActivatorNamespace).List(s.Context(), metav1.ListOptions{LabelSelector: activatorSelector})
		if err != nil {
			return err
		}
		var present []string
		for _, pod := range pods.Items {
			if pod.DeletionTimestamp == nil && podReady(&pod) {
				present = append(present, pod.Status.PodIP)
			}
		}
		slices, err := s.kube.DiscoveryV1().EndpointSlices(s.namespace).List(s.Context(), ours)
		if err != nil {
			return err
		}
		for _, slice := range slices.Items {
			if err := leads(slice, present); err != nil {
				return err
			}
		}
		return nil
	})
}

func leads(slice discoveryv1.EndpointSlice, present []string) error {
	if have, want := len(slice.Endpoints), min(subset.Size, len(present)); have != want {
		return fmt.Errorf("%s leads to %d activators, want %d", slice.Name, have, want)
	}
	for _, e := range slice.Endpoints {
		if !slices.Contains(present, e.Addresses[0]) {
			return fmt.Errorf("%s leads to %s, and there are %v", slice.Name, e.Addresses[0], present)
		}
	}
	return nil
}

// countSlices counts writes of EndpointSlices that lead to activators, from now on.
func (s *scenario) countSlices() *atomic.Int64 {
	s.Helper()
	list, err := s.kube.DiscoveryV1().EndpointSlices(s.namespace).List(s.Context(), ours)
	s.must("list EndpointSlices", err)
	options := ours
	options.ResourceVersion = list.ResourceVersion
	events, err := s.kube.DiscoveryV1().EndpointSlices(s.namespace).Watch(s.Context(), options)
	s.must("watch EndpointSlices", err)
	writes, ended := new(atomic.Int64), make(chan struct{})
	go func() {
		defer close(ended)
		for event := range events.ResultChan() {
			if event.Type == watch.Added || event.Type == watch.Modified {
				writes.Add(1)
			}
		}
	}()
	s.Cleanup(func() {
		events.Stop()
		<-ended
	})
	return writes
}

// scaleActivators sets how many activators there are, until the test ends.
func (s *scenario) scaleActivators(n int) {
	s.Helper()
	scalers := s.kube.AutoscalingV2().HorizontalPodAutoscalers(v1alpha1.ActivatorNamespace)
	scale := func(ctx context.Context, low, high int) error {
		_, err := scalers.Patch(ctx, v1alpha1.ActivatorService, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"minReplicas":%d,"maxReplicas":%d}}`, low, high), metav1.PatchOptions{})
		return err
	}
	s.must("scale the activators up", scale(s.Context(), n, 10))
	s.Cleanup(func() {
		// Without metrics the autoscaler only obeys its bounds.
		ctx := context.WithoutCancel(s.Context())
		if err := scale(ctx, 2, 2); err != nil {
			s.Error("scale the activators down:", err)
		}
	})
	s.activatorsOnly(n)
}

// activatorsOnly waits until there are so many activators, all Ready, and none that is still going.
func (s *scenario) activatorsOnly(n int) {
	s.Helper()
	s.eventually("there are "+strconv.Itoa(n)+" activators", func() error {
		list, err := s.kube.CoreV1().Pods(v1alpha1.ActivatorNamespace).List(s.Context(), metav1.ListOptions{LabelSelector: activatorSelector})
		if err != nil {
			return err
		}
		for _, pod := range list.Items {
			if pod.DeletionTimestamp != nil || !podReady(&pod) {
				return fmt.Errorf("%s is not Ready, or is going", pod.Name)
			}
		}
		if len(list.Items) != n {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
}
