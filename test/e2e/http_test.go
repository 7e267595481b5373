// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// requestTimeout is for one request to a Workspace that is awake.
const requestTimeout = 10 * time.Second

// seen is what the stand-in tells about a request to "/" and about itself, as far as tests look at it.
type seen struct {
	Workspace string
	Pod       string
	UID       int
	Handler   ran
	Host      string
	Headers   http.Header
}

// ran is what the executable in the data folder said.
type ran struct {
	Executable string
	UID        int
	Config     map[string]string
}

// url is a path of the Workspace at its Service's name. It takes the Workspace's client or transport to get there.
func (w *tenant) url(path string) string { return "http://" + w.host() + path }

// host is the name of the Workspace's Service.
func (w *tenant) host() string { return names.Deployment(w.name) + "." + w.namespace }

// transport connects to the Service's cluster address, which this machine reaches as pods do, whatever the host of a URL: it stands for the
// cluster's DNS, which is missing here.
func (w *tenant) transport() *http.Transport {
	w.Helper()
	service, err := w.kube.CoreV1().Services(w.namespace).Get(w.Context(), names.Deployment(w.name), metav1.GetOptions{})
	w.must("get the Service", err)
	return transportTo(net.JoinHostPort(service.Spec.ClusterIP, "80"))
}

// transportTo connects to one address.
func transportTo(address string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// client opens a connection for each request.
func (w *tenant) client() *http.Client {
	w.Helper()
	transport := w.transport()
	transport.DisableKeepAlives = true
	return &http.Client{Transport: transport}
}

// serving waits until the Workspace is Ready and its Service answers: the node learns of endpoints a moment after they are Ready.
func (w *tenant) serving() *tenant {
	w.Helper()
	client := w.ready().client()
	w.eventually("the Service of "+w.name+" answers", func() error {
		return request(w.Context(), client, w.url("/"), new(seen))
	})
	return w
}

// fetch gets a path of the Workspace through its Service and decodes the answer, which has to be good.
func fetch[T any](w *tenant, path string) T {
	w.Helper()
	var value T
	w.must("ask Workspace "+w.name, request(w.Context(), w.client(), w.url(path), &value))
	return value
}

// request gets a URL. Unless the answer is 200 it returns an error with the body.
func request(ctx context.Context, client *http.Client, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return json.Unmarshal(body, into)
}

// traffic is requests to a Workspace by several clients.
type traffic struct {
	*tenant
	cancel  context.CancelFunc
	clients sync.WaitGroup

	mu       sync.Mutex
	answers  map[string]int // by pod
	failures []error
}

// trafficInterval is how often a client asks, so that the clients leave some of the machine to those who serve them.
const trafficInterval = 5 * time.Millisecond

// traffic begins. Half of the clients open a connection for each request, and so meet every change of the endpoints; the others keep theirs.
func (w *tenant) traffic(clients int) *traffic {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	t := &traffic{tenant: w, cancel: cancel, answers: map[string]int{}}
	for i := range clients {
		transport := w.transport()
		transport.DisableKeepAlives = i%2 == 0
		client := &http.Client{Transport: transport}
		t.clients.Go(func() {
			defer client.CloseIdleConnections()
			ticks := time.NewTicker(trafficInterval)
			defer ticks.Stop()
			for ; ctx.Err() == nil; <-ticks.C {
				var answer seen
				err := request(context.WithoutCancel(ctx), client, w.url("/"), &answer)
				t.record(answer.Pod, err)
			}
		})
	}
	w.Cleanup(t.end)
	return t
}

func (t *traffic) record(pod string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failures = append(t.failures, err)
		return
	}
	t.answers[pod]++
}

// end lets the requests that are under way end.
func (t *traffic) end() {
	t.cancel()
	t.clients.Wait()
}

// count returns how often a pod has answered so far.
func (t *traffic) count(pod string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers[pod]
}

// answeredBy waits until a pod has answered some more requests.
func (t *traffic) answeredBy(pod string) {
	t.Helper()
	before := t.count(pod)
	t.eventually("pod "+pod+" answers", func() error {
		if more := t.count(pod) - before; more < 10 {
			return fmt.Errorf("it has answered %d requests", more)
		}
		return nil
	})
}

// unbroken ends the traffic and fails if any request did.
func (t *traffic) unbroken() {
	t.Helper()
	t.end()
	total := 0
	for _, n := range t.answers {
		total += n
	}
	t.Logf("%d requests were answered by %d pods", total, len(t.answers))
	if len(t.failures) > 0 {
		t.Errorf("%d requests of %d failed, the first with: %v", len(t.failures), total+len(t.failures), t.failures[0])
	}
}
