// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

const shop types.UID = "11111111-2222-3333-4444-555555555555"

// fixture is a tracker over a fake server, and its only listener. It lives in a synctest bubble.
type fixture struct {
	*Tracker
	t      *testing.T
	ctx    context.Context
	kube   *kubefake.Clientset
	told   []string
	events int
}

func (f *fixture) Active(uid types.UID) { f.told = append(f.told, string(uid)) }
func (f *fixture) ActivatorsChanged()   { f.events++ }

func run(t *testing.T, objects []runtime.Object, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer func() {
			cancel()
			synctest.Wait()
		}()
		f := &fixture{t: t, ctx: ctx, kube: kubefake.NewClientset(objects...)}
		var err error
		if f.Tracker, err = New(ctx, f.kube, clock.RealClock{}); err != nil {
			t.Fatal(err)
		}
		f.Subscribe(f)
		f.Start(ctx)
		if !cache.WaitFor(ctx, "", f.Synced()...) {
			t.Fatal("never synced")
		}
		synctest.Wait()
		test(f)
	})
}

func lease(version string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1alpha1.ActivatorNamespace, Name: string(shop), ResourceVersion: version,
		Labels: map[string]string{v1alpha1.LabelActivatorWorkspaceNamespace: "bank"},
	}}
}

func activators(name string, port int32, ready ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.ActivatorNamespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: v1alpha1.ActivatorService},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("metrics"), Port: ptr.To[int32](9)}, {Name: ptr.To(v1alpha1.ActivatorPortName), Port: &port}},
	}
	for _, address := range ready {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.99"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}})
	return slice
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
}

func (f *fixture) renew(version string) {
	f.t.Helper()
	_, err := f.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace).Update(f.ctx, lease(version), metav1.UpdateOptions{})
	f.must(err)
}

func (f *fixture) quiet(want time.Duration) {
	f.t.Helper()
	if got := f.Of(shop, "").Quiet; got != want {
		f.t.Errorf("quiet for %s, want %s", got, want)
	}
}

func after(d time.Duration) { <-time.After(d) }

func TestQuietIsSinceTheLeaseLastChangedHere(t *testing.T) {
	run(t, []runtime.Object{lease("7"), activators("a", 8080, "10.0.0.1")}, func(f *fixture) {
		if len(f.told) > 0 {
			t.Errorf("told of %v at the start, which says nothing about when", f.told)
		}
		f.quiet(0)
		after(time.Minute)
		f.quiet(time.Minute)
		f.renew("8")
		f.quiet(0)
		if !slices.Equal(f.told, []string{string(shop)}) || f.Of(shop, "").Lease != "8" {
			t.Errorf("told %v, the Lease is %q", f.told, f.Of(shop, "").Lease)
		}
		after(time.Minute)
		f.Touch(shop)
		after(time.Second)
		f.quiet(time.Second)
		f.must(f.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace).Delete(f.ctx, string(shop), metav1.DeleteOptions{}))
		f.quiet(0) // as of one that was never heard of
		if f.Of(shop, "").Lease != "" || len(f.told) != 1 {
			t.Errorf("a Lease that is gone is %q, told %v", f.Of(shop, "").Lease, f.told)
		}
		after(time.Minute)
		_, err := f.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace).Create(f.ctx, lease("9"), metav1.CreateOptions{})
		f.must(err)
		f.quiet(0)
		if len(f.told) != 2 {
			t.Errorf("told %v, want a new Lease among it", f.told)
		}
	})
}

// A replica that stands by asks for nobody: what it saw of the Leases does not tell how requests were led meanwhile.
func TestAWindowBeginsWhenTheReplicaBeginsToLead(t *testing.T) {
	run(t, []runtime.Object{lease("7"), activators("a", 8080, "10.0.0.1")}, func(f *fixture) {
		f.renew("8")
		after(time.Hour)
		f.quiet(0)
		after(time.Minute)
		f.quiet(time.Minute)
	})
}

func TestAWindowBeginsWhenRequestsAreWatchedAgain(t *testing.T) {
	run(t, []runtime.Object{lease("7"), activators("a", 8080, "10.0.0.1")}, func(f *fixture) {
		f.quiet(0)
		f.Unwatched(shop)
		f.renew("8")
		after(time.Hour)
		f.quiet(0)
		after(time.Minute)
		f.quiet(time.Minute)
	})
}

func TestNobodyIsQuietWithoutAWatch(t *testing.T) {
	run(t, []runtime.Object{activators("a", 8080, "10.0.0.1")}, func(f *fixture) {
		f.quiet(0)
		after(time.Hour)
		f.quiet(time.Hour)
		f.health.closed(false)
		f.quiet(0)
		f.health.opened()
		f.quiet(0)
		after(time.Minute)
		f.quiet(time.Minute)
	})
}

func TestActivators(t *testing.T) {
	run(t, nil, func(f *fixture) {
		slices := f.kube.DiscoveryV1().EndpointSlices(v1alpha1.ActivatorNamespace)
		expect := func(what string, events int, port int32, want ...string) {
			t.Helper()
			if got := f.Of(shop, "").Activators; len(got.Addresses) != len(want) || len(want) > 0 && (got.Addresses[0] != want[0] || got.Port != port || got.AddressType != "IPv4") {
				t.Errorf("%s: %+v, want port %d of %v", what, got, port, want)
			}
			if f.events != events {
				t.Errorf("%s: told %d times, want %d", what, f.events, events)
			}
		}
		expect("none", 0, 0)
		after(time.Hour)
		f.quiet(0)
		_, err := slices.Create(f.ctx, activators("a", 8080, "10.0.0.2", "10.0.0.1"), metav1.CreateOptions{})
		f.must(err)
		expect("two are ready", 1, 8080, "10.0.0.1", "10.0.0.2")
		f.quiet(0)
		after(time.Minute)
		f.quiet(time.Minute)
		_, err = slices.Create(f.ctx, activators("b", 9090, "10.0.0.3"), metav1.CreateOptions{})
		f.must(err)
		expect("another port of fewer pods", 1, 8080, "10.0.0.1", "10.0.0.2")
		_, err = slices.Update(f.ctx, activators("a", 8080), metav1.UpdateOptions{})
		f.must(err)
		expect("the other port is that of most", 2, 9090, "10.0.0.3")
		f.quiet(time.Minute)
		f.must(slices.Delete(f.ctx, "b", metav1.DeleteOptions{}))
		expect("none is left", 3, 0)
		f.quiet(0)
		after(time.Hour)
		_, err = slices.Update(f.ctx, activators("a", 8080, "10.0.0.1"), metav1.UpdateOptions{})
		f.must(err)
		after(time.Second)
		f.quiet(time.Second)
	})
}

func TestFailedWakesHoldTheNextOneBack(t *testing.T) {
	run(t, nil, func(f *fixture) {
		for i, seconds := range []int64{10, 20, 40, 80, 160, 300, 300} {
			want := time.Duration(seconds * int64(time.Second))
			f.WakeFailed(shop, "1")
			if got := f.Of(shop, "1").Backoff; got != want {
				t.Errorf("after %d failures: %s, want %s", i+1, got, want)
			}
			after(5 * time.Second)
			if got := f.Of(shop, "1").Backoff; got != want-5*time.Second {
				t.Errorf("5 s after %d failures: %s, want %s", i+1, got, want-5*time.Second)
			}
		}
		if got := f.Of(shop, "2").Backoff; got != 0 {
			t.Errorf("another attempt is held back for %s", got)
		}
		f.Woke(shop)
		if got := f.Of(shop, "1").Backoff; got != 0 {
			t.Errorf("after a success the next is held back for %s", got)
		}
	})
}
