// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

func TestReadyAddresses(t *testing.T) {
	port := func(name string, number int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: new(name), Port: new(number)}
	}
	endpoint := func(ready *bool, addresses ...string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	for name, test := range map[string]struct {
		slice discoveryv1.EndpointSlice
		want  []string
	}{
		"ready ones": {
			discoveryv1.EndpointSlice{
				Ports:     []discoveryv1.EndpointPort{port("http", 8080)},
				Endpoints: []discoveryv1.Endpoint{endpoint(new(true), "10.0.0.1"), endpoint(new(false), "10.0.0.2"), endpoint(nil, "10.0.0.3", "10.0.0.4"), endpoint(nil)},
			},
			[]string{"10.0.0.1:8080", "10.0.0.3:8080"},
		},
		"IPv6": {
			discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv6, Ports: []discoveryv1.EndpointPort{port("http", 8080)}, Endpoints: []discoveryv1.Endpoint{endpoint(nil, "fd00::1")}},
			[]string{"[fd00::1]:8080"},
		},
		"the port by name": {
			discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{port("metrics", 9090), port("http", 8080)}, Endpoints: []discoveryv1.Endpoint{endpoint(nil, "10.0.0.1")}},
			[]string{"10.0.0.1:8080"},
		},
		"the only port": {
			discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}}, Endpoints: []discoveryv1.Endpoint{endpoint(nil, "10.0.0.1")}},
			[]string{"10.0.0.1:8080"},
		},
		"no port": {discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{endpoint(nil, "10.0.0.1")}}, nil},
		"names": {
			discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeFQDN, Ports: []discoveryv1.EndpointPort{port("http", 8080)}, Endpoints: []discoveryv1.Endpoint{endpoint(nil, "example.com")}},
			nil,
		},
	} {
		if got := readyAddresses(&test.slice); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestPodsComeAndGo(t *testing.T) {
	r := newRig(t, nil)
	name := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	client := newClient(t, false)
	for _, pod := range []string{"one", "two"} {
		r.pods("shop", newPod(t, name(pod)))
		r.eventually(pod+" answers", func() bool { return do(client, r.request(t.Context(), "GET", "/", nil)).body == pod })
	}
	if err := r.kube.DiscoveryV1().EndpointSlices("bank").Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the pods are gone", func() bool {
		r.holds.mu.Lock()
		defer r.holds.mu.Unlock()
		return len(r.holds.backends) == 0
	})
	answers := start(client, r.request(t.Context(), "GET", "/", nil))
	r.waitsFor(1)
	r.pods("shop", newPod(t, name("three")))
	if got := <-answers; got.body != "three" || got.header.Get(coldStartHeader) == "" {
		t.Errorf("got %+v", got)
	}
}

// One that is created again under its name has pods of its own, whatever order the news come in.
func TestASuccessorOfTheSameName(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, hello))
	again := shop()
	again.UID = "uid-again"
	update(t, r, again) // as an informer sees it that missed the deletion
	r.eventually("its Lease is renewed", func() bool {
		if got := do(newClient(t, false), r.request(t.Context(), "GET", "/", nil)); got.body != "hello" {
			t.Fatalf("got %+v", got)
		}
		_, err := r.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace).Get(t.Context(), "uid-again", metav1.GetOptions{})
		return err == nil
	})
}

// A renewal by another replica makes ours needless; a Lease that goes makes one necessary.
func TestOtherReplicasLeases(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, hello))
	client := r.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ActivatorNamespace, Name: "uid-shop"},
		Spec:       coordinationv1.LeaseSpec{RenewTime: new(metav1.NowMicro()), HolderIdentity: new("activator-2")},
	}
	if _, err := client.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	informer := r.informers.leases.Coordination().V1().Leases().Lister().Leases(v1alpha1.ActivatorNamespace)
	r.eventually("the activator knows the Lease", func() bool { _, err := informer.Get("uid-shop"); return err == nil })
	before := r.leaseWrites()
	for range 10 {
		if got := do(newClient(t, false), r.request(t.Context(), "GET", "/", nil)); got.body != "hello" {
			t.Fatalf("got %+v", got)
		}
	}
	if n := r.leaseWrites() - before; n != 0 {
		t.Errorf("%d writes, a moment after another replica's", n)
	}
	if err := client.Delete(t.Context(), "uid-shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is made again", func() bool {
		_ = do(newClient(t, false), r.request(t.Context(), "GET", "/", nil))
		return r.leaseWrites() > before
	})
}

func TestTrim(t *testing.T) {
	const secret = "hunter2"
	meta := metav1.ObjectMeta{
		Namespace: "bank", Name: "shop", UID: "uid", ResourceVersion: "7", CreationTimestamp: metav1.NewTime(time.Unix(1700000000, 0)),
		Annotations: map[string]string{"token": secret, corev1.LastAppliedConfigAnnotation: secret}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: secret}},
	}
	ws := &v1alpha1.Workspace{ObjectMeta: meta, Spec: v1alpha1.WorkspaceSpec{ClusterClass: "economy", Owner: secret, Hosts: []string{"shop.example.com"}}}
	ws.Status = v1alpha1.WorkspaceStatus{Phase: v1alpha1.PhaseReady, Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Unschedulable", Message: secret}, {Type: "Degraded", Message: secret},
	}}
	s := slice("shop", "10.0.0.1:8080")
	s.Annotations, s.Endpoints[0].NodeName, s.Endpoints[0].TargetRef = meta.Annotations, ptr.To(secret), &corev1.ObjectReference{Name: secret}
	lease := &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(secret), RenewTime: new(metav1.NowMicro())}}
	for _, object := range []any{ws, s, lease} {
		slim, err := trim(object)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(slim)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), secret) {
			t.Errorf("%T keeps what nobody looks at: %s", object, text)
		}
		if again, _ := trim(slim); !jsonEqual(t, again, slim) {
			t.Errorf("%T changes when it is trimmed again", object)
		}
	}
	slim := trimWorkspace(ws)
	if slim.Spec.ClusterClass != "economy" || slim.Spec.Hosts[0] != "shop.example.com" || whyNotReady(slim) != "Unschedulable" || asleep(slim) || slim.UID != "uid" || slim.CreationTimestamp.IsZero() {
		t.Errorf("got %+v", slim)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "bank/shop"}
	if got, err := trim(tombstone); got != tombstone || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if class, err := trim(economy()); err != nil || !class.(*v1alpha1.ClusterClass).Spec.Scaling.ScaleToZero {
		t.Errorf("got %v, %v", class, err)
	}
}

func jsonEqual(t *testing.T, a, b any) bool {
	t.Helper()
	left, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	right, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(left) == string(right)
}

// Outcomes are counted by class. A host is what any client can make up.
func TestMetrics(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	r := newRig(t, func(c *Config) { c.Metrics, c.MaxHeldPerWorkspace = registry, 1 })
	client := newClient(t, false)
	cold := start(client, r.request(t.Context(), "GET", "/", nil))
	r.waitsFor(1)
	if held := gathered(t, registry)["formspec_activator_held_requests"]; held != 1 {
		t.Errorf("held: %v", held)
	}
	_ = do(client, r.request(t.Context(), "GET", "/", nil))
	r.pods("shop", newPod(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
	}))
	<-cold
	_ = do(client, r.request(t.Context(), "GET", "/", nil))
	_ = do(client, r.request(t.Context(), "POST", "/broken", strings.NewReader("x")))
	_ = r.at("made.up.example.com")
	r.eventually("all have ended", func() bool { return r.running.count() == 0 })
	want := map[string]float64{
		"formspec_activator_held_requests":                                  0,
		"formspec_activator_rejected_requests_total limit=workspace":        1,
		"formspec_activator_requests_total class= outcome=unknown_host":     1,
		"formspec_activator_requests_total class=economy outcome=failed":    1,
		"formspec_activator_requests_total class=economy outcome=forwarded": 1,
		"formspec_activator_requests_total class=economy outcome=rejected":  1,
		"formspec_activator_requests_total class=economy outcome=woken":     1,
		"formspec_activator_wake_duration_seconds":                          1,
		"formspec_activator_lease_writes_total purpose=wake result=success": 1,
	}
	if got := gathered(t, registry); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// gathered returns the value of each series, and of a histogram the count.
func gathered(t *testing.T, registry metrics.KubeRegistry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetName() + "=" + label.GetValue()
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}
