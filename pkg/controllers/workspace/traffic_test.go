// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// economy makes a class whose workspaces have one replica, and sleep.
func economy(c *v1alpha1.ClusterClass) {
	c.Spec.Features, c.Spec.Scaling = nil, v1alpha1.ClusterClassScaling{ScaleToZero: true}
}

func anActivator() *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.ActivatorNamespace, Name: "activator", Labels: map[string]string{discoveryv1.LabelServiceName: v1alpha1.ActivatorService},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(v1alpha1.ActivatorPortName), Port: ptr.To[int32](8080)}},
	}
}

func aLease(version string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ActivatorNamespace, Name: "uid-of-shop", ResourceVersion: version}}
}

// theirSlice is what Kubernetes makes for a Service with a selector.
func theirSlice(ready bool) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: childName + "-x7k2p", UID: "uid-of-theirs", Labels: map[string]string{
			discoveryv1.LabelServiceName: childName, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
			v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelWorkspace: "shop",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
}

// sleepy gives the test a workspace that is ready and may sleep.
func sleepy(t *testing.T, test func(f *fixture)) {
	t.Helper()
	run(t, []runtime.Object{aWorkspace(), aClass(economy), anActivator()}, func(f *fixture) {
		f.settle()
		f.rolledOut(1)
		f.settle()
		test(f)
	})
}

// request is what an activator tells of one.
func (f *fixture) request() {
	f.t.Helper()
	lease := aLease(f.next())
	tracker := f.kube.Tracker()
	if live(tracker, leasesResource, lease.Namespace, lease.Name) == nil {
		f.must(tracker.Create(leasesResource, lease, lease.Namespace))
		return
	}
	f.must(tracker.Update(leasesResource, lease, lease.Namespace))
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
}

func (f *fixture) replicas() int32 {
	f.t.Helper()
	return ptr.Deref(live(f.kube.Tracker(), deploymentsResource, "bank", childName).(*appsv1.Deployment).Spec.Replicas, -1)
}

// calm lets what is to be looked at soon be looked at.
func (f *fixture) calm() {
	f.t.Helper()
	<-time.After(time.Second)
	f.settle()
	<-time.After(time.Second)
	synctest.Wait()
	f.woken()
}

// scaledDown is what the Deployment's own controller reports at zero replicas.
func (f *fixture) scaledDown() {
	f.t.Helper()
	change(f, deploymentsResource, childName, false, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Conditions: d.Status.Conditions}
	})
	f.calm()
}

// look runs a sync that must succeed, and says when the next one is.
func (f *fixture) look() time.Duration {
	f.t.Helper()
	after, err := f.syncOnce()
	if err != nil {
		f.t.Fatal(err)
	}
	return after
}

func TestAWorkspaceFallsAsleepAndWakes(t *testing.T) {
	sleepy(t, func(f *fixture) {
		f.request()
		if len(f.woken()) > 0 {
			t.Error("a request wakes the sync of a workspace that is awake")
		}
		<-time.After(4 * time.Minute)
		if after := f.look(); after != time.Minute {
			t.Errorf("looks again in %s, want the rest of the window", after)
		}
		f.expectRequests()
		<-time.After(time.Minute)

		// when
		f.look()

		// then
		f.expectRequests("get Lease", "apply Deployment", "status Workspace")
		f.expectReady(metav1.ConditionTrue, v1alpha1.ReasonAsleep)
		if f.replicas() != 0 {
			t.Errorf("%d replicas, want 0", f.replicas())
		}
		f.scaledDown()

		// when
		wakes := f.wakes(f.request)

		// then
		if !maps.Equal(wakes, map[string]urgency{"bank/shop": now}) {
			t.Errorf("a request wakes %v", wakes)
		}
		f.look()
		f.expectRequests("apply Deployment", "status Workspace")
		f.expectReady(metav1.ConditionUnknown, v1alpha1.ReasonWaking)
		if f.replicas() != 1 {
			t.Errorf("%d replicas, want 1", f.replicas())
		}
	})
}

// Nothing but a timer tells that a window is over, from the first sync on: our own writes wake nobody.
func TestEachSyncOfAnAwakeWorkspaceLooksAgain(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass(economy), anActivator()}, func(f *fixture) {
		for _, step := range []struct {
			what string
			do   func()
		}{
			{"created", func() {}},
			{"ready", func() { f.rolledOut(1) }},
			{"ready for a while", func() { <-time.After(time.Minute) }},
		} {
			step.do()
			if after := f.look(); after <= 0 || after > 5*time.Minute {
				t.Errorf("%s: looks again in %s", step.what, after)
			}
		}
	})
}

// The cache may be behind: the API server has the last word on whether there was a request.
func TestAWatchThatIsBehindPutsNobodyToSleep(t *testing.T) {
	sleepy(t, func(f *fixture) {
		f.request()
		<-time.After(5 * time.Minute)
		var answer error
		f.kube.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, aLease("newer"), answer
		})
		if f.look(); f.replicas() != 1 {
			t.Error("it was put to sleep although it had a request")
		}
		f.expectRequests()
		if after := f.look(); after != 5*time.Minute {
			t.Errorf("looks again in %s, want the window since that request", after)
		}
		answer = errors.New("away")
		<-time.After(5 * time.Minute)
		if _, err := f.syncOnce(); !errors.Is(err, answer) || f.replicas() != 1 {
			t.Errorf("it was put to sleep while nobody knows: error %v, %d replicas", err, f.replicas())
		}
	})
}

// A failed wake holds the next one back, until something is changed.
func TestAWakeThatFailedIsNotRepeatedAtOnce(t *testing.T) {
	sleepy(t, func(f *fixture) {
		<-time.After(5 * time.Minute)
		f.look()
		f.scaledDown()
		f.request()
		f.look()
		<-time.After(time.Minute)
		f.look()
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonWakeFailed)
		<-time.After(5 * time.Minute)
		f.look()
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonWakeFailed)
		if f.replicas() != 0 {
			t.Fatalf("%d replicas, want 0: nobody asks for it", f.replicas())
		}
		f.settle()

		// when
		f.request()

		// then
		if after := f.look(); f.replicas() != 0 || after <= 0 || after > 10*time.Second {
			t.Errorf("%d replicas, looks again in %s", f.replicas(), after)
		}

		// when
		change(f, workspacesResource, "shop", true, func(ws *v1alpha1.Workspace) { ws.Spec.Resources.CPU = "1" })

		// then
		if f.look(); f.replicas() != 1 {
			t.Errorf("%d replicas, want 1: something was changed", f.replicas())
		}
	})
}

func TestTheWayToTheActivatorAndBack(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass(economy), theirSlice(true)}, func(f *fixture) {
		f.settle()
		f.rolledOut(1)
		f.settle()
		f.calm()

		// when
		wakes := f.wakes(func() { f.must(f.kube.Tracker().Add(anActivator())) })

		// then
		if !maps.Equal(wakes, map[string]urgency{"bank/shop": soon}) {
			t.Errorf("an activator that becomes ready wakes %v", wakes)
		}
		if after := f.look(); after != time.Second {
			t.Errorf("looks again in %s", after)
		}
		f.expectRequests("create EndpointSlice", "apply Service", "status Workspace")
		f.look()
		f.expectRequests("delete Endpoints", "delete EndpointSlice")
		f.calm()

		// when Kubernetes makes it again
		wakes = f.wakes(func() { f.must(f.kube.Tracker().Add(theirSlice(false))) })

		// then
		if !maps.Equal(wakes, map[string]urgency{"bank/shop": soon}) {
			t.Errorf("the old way wakes %v", wakes)
		}
		f.look()
		f.calm()

		// when
		change(f, classesResource, "standard", true, func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.ScaleToZero = false })
		f.look()

		// then
		f.calm()
		if live(f.kube.Tracker(), slicesResource, "bank", childName+"-activator") == nil {
			t.Error("the way to the activator went first")
		}
		wakes = f.wakes(func() { f.must(f.kube.Tracker().Add(theirSlice(true))) })
		if !maps.Equal(wakes, map[string]urgency{"bank/shop": soon}) {
			t.Errorf("the new way wakes %v", wakes)
		}
		f.look()
		f.expectRequests("delete EndpointSlice")
		f.look()
		f.expectRequests("delete Service")
		f.look()
		f.expectRequests()
	})
}

func TestHostsWakeTheirRivals(t *testing.T) {
	shops := aWorkspace(func(ws *v1alpha1.Workspace) {
		ws.Spec.Hosts = []string{"shop.apps.example.com"}
		ws.CreationTimestamp = metav1.NewTime(time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC))
	})
	older := aWorkspace(func(ws *v1alpha1.Workspace) {
		ws.Name, ws.UID = "older", "uid-of-older"
		ws.Spec.Hosts = []string{"shop.apps.example.com"}
		ws.CreationTimestamp = metav1.NewTime(time.Date(2026, 7, 9, 10, 0, 0, 0, time.UTC))
	})
	class := aClass(func(c *v1alpha1.ClusterClass) { c.Spec.HostSuffixes = []string{"apps.example.com"} })
	quietly(t, []runtime.Object{shops, class}, func(f *fixture) {
		accepted := func(want metav1.ConditionStatus, reason string) {
			t.Helper()
			f.look()
			ws := live(f.server.formspec.Tracker(), workspacesResource, "bank", "shop").(*v1alpha1.Workspace)
			for _, c := range ws.Status.Conditions {
				if c.Type == v1alpha1.ConditionHostsAccepted && c.Status == want && c.Reason == reason {
					return
				}
			}
			t.Errorf("HostsAccepted is not %s %s: %+v", want, reason, ws.Status.Conditions)
		}
		accepted(metav1.ConditionTrue, v1alpha1.ReasonHostsAccepted)
		f.calm()
		wakes := f.wakes(func() { f.add(older) })
		if !maps.Equal(wakes, map[string]urgency{"bank/shop": now, "bank/older": now}) {
			t.Errorf("the claim of an older Workspace wakes %v", wakes)
		}
		accepted(metav1.ConditionTrue, v1alpha1.ReasonHostsAccepted) // who has it keeps it
		f.calm()
		wakes = f.wakes(func() { // it had it before, and this cache learns of it last
			change(f, workspacesResource, "older", true, func(ws *v1alpha1.Workspace) { ws.Status.Hosts = ws.Spec.Hosts })
			synctest.Wait()
		})
		if !maps.Equal(wakes, map[string]urgency{"bank/shop": now, "bank/older": now}) {
			t.Errorf("a host that another one has wakes %v", wakes)
		}
		accepted(metav1.ConditionFalse, v1alpha1.ReasonHostConflict)
		f.calm()
		wakes = f.wakes(func() {
			change(f, workspacesResource, "older", true, func(ws *v1alpha1.Workspace) { ws.Spec.Hosts = nil })
			synctest.Wait()
		})
		if !maps.Equal(wakes, map[string]urgency{"bank/shop": now, "bank/older": now}) {
			t.Errorf("the end of an older claim wakes %v", wakes)
		}
		accepted(metav1.ConditionTrue, v1alpha1.ReasonHostsAccepted)
		change(f, classesResource, "standard", true, func(c *v1alpha1.ClusterClass) { c.Spec.HostSuffixes = nil })
		accepted(metav1.ConditionFalse, v1alpha1.ReasonHostNotAllowed)
	})
}

// What was decided before stands when the class is gone: the children show it.
func TestWithoutItsClassAWorkspaceStaysReachableAndWakes(t *testing.T) {
	sleepy(t, func(f *fixture) {
		f.must(f.server.formspec.Tracker().Delete(classesResource, "", "standard"))
		f.look()
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonClusterClassNotFound)
		f.calm()
		others := anActivator()
		others.Endpoints[0].Addresses = []string{"10.0.0.8"}

		// when
		wakes := f.wakes(func() { f.must(f.kube.Tracker().Update(slicesResource, others, others.Namespace)) })

		// then
		if !maps.Equal(wakes, map[string]urgency{"bank/shop": soon}) {
			t.Errorf("other activators wake %v", wakes)
		}
		f.look()
		f.expectRequests("apply EndpointSlice")
	})
	sleepy(t, func(f *fixture) {
		<-time.After(5 * time.Minute)
		f.look()
		f.scaledDown()
		f.must(f.server.formspec.Tracker().Delete(classesResource, "", "standard"))
		f.look()
		if f.replicas() != 0 {
			t.Fatalf("%d replicas, want 0: nobody asks for it", f.replicas())
		}

		// when
		f.request()

		// then
		if f.look(); f.replicas() != 1 {
			t.Errorf("%d replicas, want 1", f.replicas())
		}
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonClusterClassNotFound)
	})
}
