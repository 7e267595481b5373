// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// An idle Workspace sleeps, stays asleep over a restart of the operator, and wakes with the next request, also one that came while no
// operator ran. With it goes its Lease.
func sleepAndWake(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	a := s.activator("10.9.0.1", "10.9.0.2")
	plain, scaled := s.class(economy(15*time.Second)), s.class(full, economy(15*time.Second))
	shops := map[*tenant]int32{ // replicas, awake
		s.workspace("plain", plain):   1,
		s.workspace("scaled", scaled): scaled.Spec.Scaling.MinReplicas,
	}
	each := func(do func(shop *tenant, replicas int32)) {
		for shop, replicas := range shops {
			do(shop, replicas)
		}
	}
	awake := func(shop *tenant, replicas int32) { shop.awake(replicas) }
	asleep := func(shop *tenant, _ int32) { shop.asleep() }
	request := func(shop *tenant, _ int32) { a.request(shop) }
	each(awake)
	each(func(shop *tenant, _ int32) {
		shop.passes("10.9.0.1", "10.9.0.2")
		a.request(shop)
		if err := shop.asleepNow(); err == nil {
			t.Errorf("%s sleeps with a request a moment ago", shop.name)
		}
	})

	// then
	each(asleep)
	each(func(shop *tenant, replicas int32) {
		for _, kind := range []string{"HorizontalPodAutoscaler", "PodDisruptionBudget"} {
			if err := shop.hasChild(kind, replicas > 1); err != nil {
				t.Error(err)
			}
		}
	})

	// when
	s.restart(syscall.SIGKILL)

	// then
	s.workspace("probe", plain).ready() // the new operator has looked at everything
	s.lasts(5*time.Second, "they sleep on", func() (err error) {
		each(func(shop *tenant, _ int32) { err = errors.Join(err, shop.asleepNow()) })
		return err
	})

	// when
	each(request)

	// then
	each(awake)
	each(asleep)

	// when
	s.whileStopped(func() { each(request) })

	// then
	each(awake)

	// when
	each(func(shop *tenant, _ int32) {
		uid := string(shop.get().UID)
		s.kubectl("delete", "workspace", shop.name)

		// then
		s.eventually("the Lease is gone", func() error {
			_, err := s.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace).Get(s.Context(), uid, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("get the Lease: %w", errors.Join(err, errors.New("it is still there")))
		})
	})
}

// A Workspace with requests is never put to sleep, whatever happens to the operator and the API server.
func busyIsNeverPutToSleep(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	window, outage := 20*time.Second, 40*time.Second
	a := s.activator("10.9.0.1")
	class := s.class(economy(window))
	busy, idle := s.workspace("busy", class), s.workspace("idle", class)
	busy.awake(1)
	busy.passes("10.9.0.1")
	stop := a.keepBusy(busy, window/4)
	defer stop()
	generation := busy.deployment().Generation
	unmoved := func() error {
		if d := busy.deployment(); *d.Spec.Replicas != 1 || d.Generation != generation {
			return fmt.Errorf("it has %d replicas in generation %d, want 1 in %d", *d.Spec.Replicas, d.Generation, generation)
		}
		return nil
	}

	// then
	idle.asleep()
	s.lasts(2*window, "it is awake", unmoved)

	// when
	s.restart(syscall.SIGKILL)

	// then
	s.lasts(2*window, "it is awake after a restart of the operator", unmoved)
	if err := idle.asleepNow(); err != nil {
		t.Errorf("the other has woken: %v", err)
	}

	// when the API server is away for longer than the window, so that nobody can renew a Lease
	s.operator.troubled = true
	s.Cleanup(s.bringBack)
	s.takeAway()
	s.lasts(outage, "the operator runs on", func() error {
		if !s.operator.running() {
			return fmt.Errorf("it ended: %s", s.operator.tail(20))
		}
		return nil
	})
	s.bringBack()

	// then
	s.lasts(2*window, "it is awake after an outage", unmoved)

	// when
	s.restart(syscall.SIGTERM) // the next one has no reason to log errors

	// then
	s.lasts(window, "it is awake", unmoved)
}

// Both ways are complete before the other one goes, and nothing is left behind.
func routingBothWays(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	class := s.class()
	shop := s.workspace("shop", class).ready()
	shop.direct(false)
	a := s.activator("10.9.0.1")

	// when
	s.patchClass(class, `{"spec":{"scaling":{"scaleToZero":true,"idleAfter":"1h"}}}`)

	// then
	shop.passes("10.9.0.1")
	pods := shop.podUIDs()

	// when a pod changes, nobody makes the old way again
	s.kubectl("delete", "pod", "-l", shop.selector(), "--wait=false")
	s.eventually("there is another pod", func() error {
		if len(shop.podUIDs().Difference(pods)) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	shop.rolledOut()
	shop.passes("10.9.0.1")

	// when
	a.pods("10.9.0.2", "10.9.0.3")

	// then
	shop.passes("10.9.0.2", "10.9.0.3")

	// when no activator is left
	a.pods()

	// then
	shop.direct(true)
	s.eventually("it says so", func() error {
		return condition(shop.get(), v1alpha1.ConditionScaleToZeroActive, metav1.ConditionFalse, v1alpha1.ReasonNoActivator)
	})

	// when
	a.pods("10.9.0.4")

	// then
	shop.passes("10.9.0.4")

	// when
	s.patchClass(class, `{"spec":{"scaling":{"scaleToZero":false}}}`)

	// then
	shop.direct(false)
	shop.ready()
}

// A Workspace that was told to sleep sleeps at once, and wakes with a request, or when it may not sleep any more.
func sleepByAnnotation(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	a := s.activator("10.9.0.1")
	class := s.class(full, economy(time.Hour))
	shop := s.workspace("shop", class)
	shop.awake(2)
	a.request(shop)
	shop.passes("10.9.0.1")

	// when
	s.kubectl("annotate", "workspace", "shop", "formspec.dev/idle=true")

	// then
	shop.asleep()

	// when the class changes, it sleeps on
	s.patchClass(class, `{"spec":{"sla":"99.9","scaling":{"minReplicas":3}}}`)
	s.lasts(5*time.Second, "it sleeps on", shop.asleepNow)

	// when
	a.request(shop)

	// then
	shop.awake(3)

	// when
	s.kubectl("annotate", "workspace", "shop", "formspec.dev/idle-")
	s.kubectl("annotate", "workspace", "shop", "formspec.dev/idle=true")
	shop.asleep()
	s.kubectl("annotate", "workspace", "shop", "formspec.dev/keep-awake-until=2126-07-10T10:00:00Z")

	// then
	shop.awake(3)

	// when
	s.kubectl("annotate", "workspace", "shop", "formspec.dev/keep-awake-until-")
	s.kubectl("annotate", "workspace", "shop", "formspec.dev/idle-")
	s.kubectl("annotate", "workspace", "shop", "formspec.dev/idle=true")
	shop.asleep()

	// when the class forbids it
	s.patchClass(class, `{"spec":{"scaling":{"scaleToZero":false}}}`)

	// then
	shop.awake(3)
	shop.direct(false)
}

// While everybody sleeps or has requests, the operator sends nothing.
func sleepersAndBusyAreSilent(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	const count, window = 10, 12 * time.Second
	a := s.activator("10.9.0.1", "10.9.0.2")
	class := s.class(economy(window))
	var all []*tenant
	for i := range count {
		all = append(all, s.workspace(fmt.Sprintf("shop-%d", i), class))
	}
	var uids []string
	for i, w := range all {
		w.awake(1)
		if uids = append(uids, string(w.get().UID)); i%2 == 0 {
			defer a.keepBusy(w, window/6)()
		}
	}
	for i, w := range all {
		w.passes("10.9.0.1", "10.9.0.2")
		if i%2 == 1 {
			w.asleep()
		}
	}
	concerned := func(from mark) error {
		found, err := s.audit.between(s.Context(), from, s.now())
		s.must("read the audit log", err)
		return nothing(filter(found, func(r request) bool {
			collected := r.Verb == "delete" && !slices.Contains(uids, r.Object.Name) // the Lease of an earlier test
			return r.Object.Namespace == s.namespace || slices.Contains(uids, r.Object.Name) ||
				strings.Contains(r.RequestURI, v1alpha1.ActivatorNamespace) && !collected
		}))
	}
	s.eventually("the operator is quiet", func() error {
		start := s.now()
		for time.Since(start.received) < 2*time.Second {
			if err := concerned(start); err != nil {
				return err
			}
		}
		return nil
	})

	// then
	start := s.now()
	s.lasts(3*window, "the operator sends nothing", func() error { return concerned(start) })
	for i, w := range all {
		if err := w.asleepNow(); (err == nil) != (i%2 == 1) {
			t.Errorf("%s: %v", w.name, err)
		}
	}
}
