// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func TestARequestWakesAWorkspaceAndIsAnswered(t *testing.T) {
	r := newRig(t, nil)
	client := newClient(t, false)
	cold := start(client, r.request(t.Context(), "GET", "/", nil))
	r.waitsFor(1)
	r.eventually("the Lease asks for a wake", func() bool {
		lease, err := r.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace).Get(t.Context(), "uid-shop", metav1.GetOptions{})
		return err == nil && *lease.Spec.HolderIdentity == "activator-1"
	})
	r.pods("shop", newPod(t, hello))
	if got := <-cold; got.code != http.StatusOK || got.body != "hello" || got.header.Get(coldStartHeader) == "" {
		t.Errorf("cold: %+v", got)
	}
	if got := do(client, r.request(t.Context(), "GET", "/", nil)); got.code != http.StatusOK || got.header.Get(coldStartHeader) != "" {
		t.Errorf("warm: %+v", got)
	}
	if r.held() != 0 {
		t.Errorf("%d slots are taken", r.held())
	}
}

func TestManyRequestsAreOneWrite(t *testing.T) {
	r := newRig(t, nil)
	client := newClient(t, true)
	var served sync.WaitGroup
	var bad atomic.Int32
	const n = 1000
	for range n {
		served.Go(func() {
			if got := do(client, r.request(t.Context(), "GET", "/", nil)); got.code != http.StatusOK || got.header.Get(coldStartHeader) == "" {
				bad.Add(1)
			}
		})
	}
	r.waitsFor(n)
	r.pods("shop", newPod(t, hello))
	served.Wait()
	if bad.Load() > 0 {
		t.Errorf("%d of %d were not served", bad.Load(), n)
	}
	// The Lease did not exist: the write that made it is a patch that found nothing, and a create.
	if writes := r.leaseWrites(); writes != 2 {
		t.Errorf("%d requests to the API server for one wake, want 2", writes)
	}
}

func TestAClientThatHangsUpFreesItsSlot(t *testing.T) {
	for name, leave := range map[string]func(r *rig){
		"HTTP/1.1": func(r *rig) {
			c := dialRaw(r, r.address, "GET / HTTP/1.1\nHost: "+shopHost+"\n\n")
			r.waitsFor(1)
			_ = c.Close()
		},
		// The server of net/http notices only what comes after the body, and the body is not read.
		"HTTP/1.1 with a body": func(r *rig) {
			c := dialRaw(r, r.address, "POST / HTTP/1.1\nHost: "+shopHost+"\nContent-Length: 1000000\n\n"+strings.Repeat("x", 100000))
			r.waitsFor(1)
			_ = c.Close()
		},
		"HTTP/2": func(r *rig) {
			ctx, cancel := context.WithCancel(r.Context())
			_ = start(newClient(r, true), r.request(ctx, "POST", "/", strings.NewReader("x")))
			r.waitsFor(1)
			cancel()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			leave(r)
			r.waitsFor(0)
			r.eventually("the request has ended", func() bool { return r.running.count() == 0 })
		})
	}
}

func TestRequestsBeyondTheLimits(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxHeldPerWorkspace = 2 })
	client := newClient(t, false)
	waiting := []<-chan answer{start(client, r.request(t.Context(), "GET", "/", nil)), start(client, r.request(t.Context(), "GET", "/", nil))}
	r.waitsFor(2)
	got := do(client, r.request(t.Context(), "POST", "/", strings.NewReader("body")))
	if got.code != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "5" || !strings.Contains(got.body, "too many requests") {
		t.Errorf("got %+v", got)
	}
	r.pods("shop", newPod(t, hello))
	for _, held := range waiting {
		if got := <-held; got.code != http.StatusOK {
			t.Errorf("one that was held: %+v", got)
		}
	}
}

// Unread uploads fill the window that all requests on the connection share.
func TestUploadsThatWaitOnOneConnectionLeaveRoomForOthers(t *testing.T) {
	awake := shop()
	awake.Name, awake.UID, awake.Spec.Hosts = "awake", "uid-awake", nil
	r := newRig(t, nil, economy(), shop(), awake)
	r.pods("awake", newPod(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n != 1<<20 {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	client := newClient(t, true)
	first := r.request(t.Context(), "GET", "/", nil) // dials the pod
	first.Host = "formspec-resource-awake.bank"
	_ = do(client, first)
	upload := func() *http.Request {
		return r.request(t.Context(), "POST", "/", strings.NewReader(strings.Repeat("x", 1<<20)))
	}
	var held []<-chan answer
	for range maxUploads {
		held = append(held, start(client, upload()))
	}
	r.waitsFor(maxUploads)
	if got := do(client, upload()); got.code != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("one too many: %+v", got)
	}
	other := upload()
	other.Host = "formspec-resource-awake.bank"
	if got := do(client, other); got.code != http.StatusOK {
		t.Errorf("another Workspace, awake: %+v", got)
	}
	r.pods("shop", newPod(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	for _, answers := range held {
		if got := <-answers; got.code != http.StatusOK {
			t.Errorf("one that was held: %+v", got)
		}
	}
}

func TestTheDeadlineGivesTheReason(t *testing.T) {
	for _, reason := range []string{v1alpha1.ReasonImagePullBackOff, v1alpha1.ReasonUnschedulable, v1alpha1.ReasonQuotaExceeded, v1alpha1.ReasonCrashLoopBackOff} {
		t.Run(reason, func(t *testing.T) {
			ws := shop()
			ws.Status.Phase = v1alpha1.PhasePending
			ws.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "node-17 is full"}}
			r := newRig(t, func(c *Config) { c.WakeDeadline = 50 * time.Millisecond }, economy(), ws)
			got := do(newClient(t, false), r.request(t.Context(), "POST", "/", strings.NewReader("body")))
			if got.code != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, reason) {
				t.Errorf("got %+v", got)
			}
			if strings.Contains(got.body, "node-17") {
				t.Errorf("the world learns about the cluster: %s", got.body)
			}
			if r.held() != 0 {
				t.Errorf("%d slots are taken", r.held())
			}
		})
	}
}

// The pod is Ready and does not listen yet; then it does.
func TestAPodThatCannotBeDialledYet(t *testing.T) {
	r := newRig(t, nil)
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	_ = reserved.Close()
	answers := start(newClient(t, false), r.request(t.Context(), "POST", "/", strings.NewReader("body")))
	r.waitsFor(1)
	r.pods("shop", address)
	var bodies sync.Map
	servePod(t, address, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies.Store(string(body), true)
	})
	if got := <-answers; got.code != http.StatusOK {
		t.Errorf("got %+v", got)
	}
	if _, whole := bodies.Load("body"); !whole {
		t.Error("the body did not arrive whole")
	}
}

// A pod that was reached before, and is gone without notice: the request was not sent, so it goes to another one, with its body.
func TestAPodThatIsGone(t *testing.T) {
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			client := newClient(t, h2)
			echo := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
			reserved, err := net.Listen("tcp", "127.0.0.2:0") // both pods have one port
			if err != nil {
				t.Skip("there is no 127.0.0.2 here:", err)
			}
			_, port, _ := net.SplitHostPort(reserved.Addr().String())
			_ = reserved.Close()
			alive := servePod(t, "127.0.0.1:"+port, echo)
			r.pods("shop", alive, "127.0.0.2:"+port)
			key := podsKey(shop())
			r.holds.mu.Lock()
			r.holds.backend(key).endpoints["127.0.0.2:"+port].proven = true // it was, once
			r.holds.mu.Unlock()
			for range 4 {
				if got := do(client, r.request(t.Context(), "POST", "/", strings.NewReader("body"))); got.code != http.StatusOK || got.body != "body" || got.header.Get(coldStartHeader) != "" {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
}

// What may have been sent is never sent again.
func TestNothingIsSentTwice(t *testing.T) {
	r := newRig(t, nil)
	var hits atomic.Int32
	r.pods("shop", newPod(t, func(_ http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		_, _ = io.ReadFull(r.Body, make([]byte, 1))
		panic(http.ErrAbortHandler)
	}))
	got := do(newClient(t, false), r.request(t.Context(), "POST", "/", strings.NewReader("body")))
	if got.code != http.StatusBadGateway || hits.Load() != 1 {
		t.Errorf("got %+v after the pod was asked %d times", got, hits.Load())
	}
}

// An answer that breaks off must not look like one that ended.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	if got := do(newClient(t, false), r.request(t.Context(), "GET", "/", nil)); got.err == nil {
		t.Errorf("got %+v, want an error", got)
	}
}

func TestAwakeTrafficNeedsNoAPIServer(t *testing.T) {
	r := newRig(t, nil)
	r.kube.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the API server is away")
	})
	r.endpointsKnown("shop", newPod(t, hello))
	client := newClient(t, false)
	for range 20 {
		if got := do(client, r.request(t.Context(), "GET", "/", nil)); got.code != http.StatusOK {
			t.Fatalf("got %+v", got)
		}
	}
	r.eventually("a renewal was tried", func() bool { return r.leaseWrites() > 0 })
}

// endpointsKnown stands for what the cache has from before.
func (r *rig) endpointsKnown(workspace string, addresses ...string) {
	r.holds.set(podsKey(&v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: workspace}}), addresses)
}

func TestAClassThatDoesNotScaleToZeroHasNoLease(t *testing.T) {
	class := economy()
	class.Spec.Scaling.ScaleToZero = false
	r := newRig(t, nil, class, shop())
	answers := start(newClient(t, false), r.request(t.Context(), "GET", "/", nil))
	r.waitsFor(1) // a pod may be on its way all the same
	r.pods("shop", newPod(t, hello))
	if got := <-answers; got.code != http.StatusOK {
		t.Errorf("got %+v", got)
	}
	r.eventually("the request has ended", func() bool { return r.running.count() == 0 })
	if writes := r.leaseWrites(); writes != 0 {
		t.Errorf("%d writes of Leases", writes)
	}
}

// A Workspace that falls asleep before its last request was told of is not woken by that.
func TestAWorkspaceThatFallsAsleepStaysAsleep(t *testing.T) {
	awake := shop()
	awake.Status.Phase = v1alpha1.PhaseReady
	short := economy()
	short.Spec.Scaling.IdleAfter = &metav1.Duration{Duration: 2 * time.Second}
	r := newRig(t, nil, short, awake)
	r.pods("shop", newPod(t, hello))
	ask := func() {
		t.Helper()
		if got := do(newClient(t, false), r.request(t.Context(), "GET", "/", nil)); got.body != "hello" {
			t.Fatalf("got %+v", got)
		}
	}
	ask()
	leases := r.informers.leases.Coordination().V1().Leases().Lister().Leases(v1alpha1.ActivatorNamespace)
	r.eventually("the first request is told of", func() bool { _, err := leases.Get("uid-shop"); return err == nil })
	before := r.leaseWrites()
	ask()
	asleepNow := shop()
	asleepNow.ResourceVersion = "2"
	if _, err := r.formspec.FormspecV1alpha1().Workspaces("bank").UpdateStatus(t.Context(), asleepNow, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the activator knows that it sleeps", func() bool {
		ws, err := r.workspaces.Workspaces("bank").Get("shop")
		return err == nil && asleep(ws)
	})
	<-time.After(short.Spec.Scaling.IdleAfter.Duration)
	if n := r.leaseWrites() - before; n != 0 {
		t.Errorf("the Lease was written %d times while the Workspace slept", n)
	}
}
