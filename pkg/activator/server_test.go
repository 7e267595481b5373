// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Who has come in time is served: one that is held, one that streams, and one on an upgraded connection.
func TestDrain(t *testing.T) {
	awake := shop()
	awake.Name, awake.UID, awake.Spec.Hosts = "awake", "uid-awake", nil
	r := newRig(t, nil, economy(), shop(), awake)
	finish := make(chan struct{})
	r.pods("awake", newPod(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			upgraded(w, r)
			return
		}
		_ = http.NewResponseController(w).Flush()
		<-finish
		_, _ = w.Write([]byte("the end"))
	}))
	held := start(newClient(t, false), r.request(t.Context(), "GET", "/", nil))
	streaming := r.request(t.Context(), "GET", "/", nil)
	streaming.Host = "formspec-resource-awake.bank"
	streamed := start(newClient(t, true), streaming)
	socket := dialRaw(t, r.address, strings.ReplaceAll(handshake, "-shop.", "-awake."))
	if head := socket.head(t); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatal(head)
	}
	r.eventually("all three run", func() bool { return r.running.count() == 3 && r.held() == 1 })

	r.stop()
	r.eventually("it is not ready", r.Draining)
	r.eventually("it takes no more", func() bool {
		conn, err := net.Dial("tcp", r.address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	r.pods("shop", newPod(t, hello))
	if got := <-held; got.body != "hello" || !got.closes {
		t.Errorf("the held one: %+v", got)
	}
	close(finish)
	if got := <-streamed; got.body != "the end" {
		t.Errorf("the stream: %+v", got)
	}
	socket.send(t, "still there\n")
	if line, err := socket.ReadString('\n'); line != "echo still there\r\n" {
		t.Errorf("the socket: %q, %v", line, err)
	}
	select {
	case err := <-r.drained:
		t.Fatalf("it has ended with a socket open: %v", err)
	default:
	}
	_ = socket.Close()
	if err := <-r.drained; err != nil {
		t.Errorf("got %v", err)
	}
}

func TestDrainDoesNotWaitForEver(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, upgraded))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	drained := make(chan error, 1)
	go func() { drained <- r.Serve(ctx, listener, Drain{Timeout: time.Millisecond}) }()
	dialRaw(t, listener.Addr().String(), handshake).head(t)
	stop()
	if err := <-drained; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 are cut off") {
		t.Errorf("got %v", err)
	}
}

// Requests come until the operator has led every Workspace to another replica, however long that takes.
func TestDrainWaitsUntilNobodyIsLedHere(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, hello))
	here := slice("shop", r.address)
	here.Name = "formspec-resource-shop-activator"
	here.Labels = map[string]string{discoveryv1.LabelServiceName: "formspec-resource-shop", discoveryv1.LabelManagedBy: v1alpha1.ManagedBy}
	endpointSlices := r.kube.DiscoveryV1().EndpointSlices("bank")
	if _, err := endpointSlices.Create(t.Context(), here, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	looked := make(chan struct{}, 10)
	r.kube.PrependReactor("list", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		looked <- struct{}{}
		return false, nil, nil
	})
	r.stop()
	for range 2 { // the second time it was not the first answer that made it go on
		select {
		case <-looked:
		case err := <-r.drained:
			t.Fatalf("it has ended, %v, and a Service leads here", err)
		}
	}
	if got := do(newClient(t, false), r.request(t.Context(), "GET", "/", nil)); got.body != "hello" || !got.closes {
		t.Errorf("while the Service leads here: %+v", got)
	}
	here.Endpoints = nil
	if _, err := endpointSlices.Update(t.Context(), here, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-r.drained; err != nil {
		t.Errorf("got %v", err)
	}
}
