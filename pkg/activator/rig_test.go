// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

const shopHost = "formspec-resource-shop.bank.svc.cluster.local"

// rig is an activator with real connections, in front of a fake API server and a real pod.
type rig struct {
	testing.TB
	*Activator
	kube     *kubefake.Clientset
	formspec *formspecfake.Clientset
	address  string       // of the activator
	read     atomic.Int64 // bytes that the activator has read from its clients
	stop     context.CancelFunc
	drained  chan error
}

func economy() *v1alpha1.ClusterClass {
	return &v1alpha1.ClusterClass{
		ObjectMeta: metav1.ObjectMeta{Name: "economy"},
		Spec:       v1alpha1.ClusterClassSpec{Scaling: v1alpha1.ClusterClassScaling{ScaleToZero: true}, HostSuffixes: []string{"apps.example.com"}},
	}
}

func shop() *v1alpha1.Workspace {
	return &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "shop", UID: "uid-shop"},
		Spec:       v1alpha1.WorkspaceSpec{ClusterClass: "economy", Hosts: []string{"shop.apps.example.com"}},
		Status: v1alpha1.WorkspaceStatus{
			Phase:      v1alpha1.PhaseSleeping,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsleep}},
		},
	}
}

func newRig(t testing.TB, change func(*Config), objects ...runtime.Object) *rig {
	t.Helper()
	if len(objects) == 0 {
		objects = []runtime.Object{economy(), shop()}
	}
	r := &rig{TB: t, kube: kubefake.NewClientset(), formspec: formspecfake.NewClientset(objects...), drained: make(chan error, 1)}
	config := Config{
		Kube: r.kube, FormSpec: r.formspec, Write: r.kube, Identity: "activator-1",
		IdleAfter: 5 * time.Minute, WakeDeadline: time.Minute, MaxHeld: 5000, MaxHeldPerWorkspace: 5000, LeaseWritesPerSecond: 20,
		Metrics: metrics.NewKubeRegistry(),
	}
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{})) // which is silent
	var err error
	if r.Activator, err = New(ctx, config); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	serving, stop := context.WithCancel(ctx)
	r.stop = stop
	go r.Run(ctx)
	go func() {
		r.drained <- r.Serve(serving, countingListener{listener, &r.read}, Drain{Timeout: time.Minute})
	}()
	t.Cleanup(cancel)
	return r
}

// countingListener counts what is read from its connections.
type countingListener struct {
	net.Listener
	read *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{conn.(*net.TCPConn), l.read}, nil
}

type countingConn struct {
	*net.TCPConn
	read *atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// eventually waits for a condition, and fails the test if it never comes.
func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(limit) {
			r.Fatalf("never: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func (r *rig) held() int {
	r.holds.mu.Lock()
	defer r.holds.mu.Unlock()
	return r.holds.waiting
}

func (r *rig) waitsFor(n int) {
	r.Helper()
	r.eventually(fmt.Sprintf("%d requests are held", n), func() bool { return r.held() == n })
}

// leaseWrites counts the writes that have reached the API server.
func (r *rig) leaseWrites() (n int) {
	for _, action := range r.kube.Actions() {
		if action.Matches("create", "leases") || action.Matches("patch", "leases") {
			n++
		}
	}
	return n
}

// slice is what Kubernetes makes for the headless Service of a Workspace, here with pods at these addresses.
func slice(workspace string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: workspace, Labels: map[string]string{
			discoveryv1.LabelServiceName: names.Pods(workspace), v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, "service.kubernetes.io/headless": "",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			panic(err)
		}
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			panic(err)
		}
		s.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(number))}}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	return s
}

// pods says which pods of a Workspace are Ready. All have one port, as in the cluster.
func (r *rig) pods(workspace string, addresses ...string) {
	r.Helper()
	client, s := r.kube.DiscoveryV1().EndpointSlices("bank"), slice(workspace, addresses...)
	_, err := client.Update(r.Context(), s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(r.Context(), s, metav1.CreateOptions{})
	}
	if err != nil {
		r.Fatal(err)
	}
	key := podsKey(&v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: workspace}})
	r.eventually("the activator knows the pods", func() bool {
		r.holds.mu.Lock()
		defer r.holds.mu.Unlock()
		b := r.holds.backends[key]
		return b != nil && len(b.order) == len(addresses)
	})
}

// newPod serves HTTP/1.1 and h2c, and returns its address.
func newPod(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	return servePod(t, "127.0.0.1:0", handler)
}

func servePod(t testing.TB, address string, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), DisableGeneralOptionsHandler: true}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

func newClient(t testing.TB, h2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 1000, DisableCompression: true}
	transport.Protocols.SetHTTP1(!h2)
	transport.Protocols.SetUnencryptedHTTP2(h2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (r *rig) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	r.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+r.address+path, body)
	if err != nil {
		r.Fatal(err)
	}
	request.Host = shopHost
	return request
}

// answer is what a client got.
type answer struct {
	code   int
	header http.Header
	body   string
	err    error
	closes bool // the connection
}

func do(client *http.Client, request *http.Request) answer {
	res, err := client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body), err, res.Close}
}

// start sends a request and returns where its answer will be.
func start(client *http.Client, request *http.Request) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- do(client, request) }()
	return answers
}

// raw is a connection on which a test writes HTTP itself.
type raw struct {
	net.Conn
	*bufio.Reader
}

func dialRaw(t testing.TB, address, text string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &raw{conn, bufio.NewReader(conn)}
	c.send(t, text)
	return c
}

func (c *raw) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func (c *raw) send(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(c.Conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
}

// head reads the head of an answer.
func (c *raw) head(t testing.TB) string {
	t.Helper()
	var head strings.Builder
	for {
		line, err := c.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", head.String(), err)
		}
		if line == "\r\n" {
			return head.String()
		}
		head.WriteString(line)
	}
}
