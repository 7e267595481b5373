// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/formspec/formspec-operator/test/clustercontrol"
)

// What usageAPI says of each pod and each node, at any time.
const (
	podMillicores  = 100
	podBytes       = 64 << 20
	nodeMillicores = 700
	nodeBytes      = 3 << 30
)

// usageAPI serves metrics.k8s.io behind the API server, as metrics-server does, so that rights count. Everything that runs uses the same.
type usageAPI struct{ *scenario }

// usage registers it for the test. While it is registered and does not answer no namespace can go, so it goes first.
func (s *scenario) usage() {
	s.Helper()
	server := httptest.NewTLSServer(&usageAPI{s})
	s.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	s.must("read the address", err)
	_, err = s.cluster.kubectlWith(s.Context(), fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"Service","metadata":{"name":"usage","namespace":%q},"spec":{"type":"ExternalName","externalName":"localhost"}},
		{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1beta1.metrics.k8s.io"},
		 "spec":{"group":"metrics.k8s.io","version":"v1beta1","groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,
		         "service":{"namespace":%q,"name":"usage","port":%s}}}]}`, s.namespace, s.namespace, address.Port()), "apply", "-f", "-")
	s.must("register metrics.k8s.io", err)
	s.Cleanup(s.withdrawUsage)
	s.eventually("metrics.k8s.io answers", func() error {
		_, err := s.cluster.kubectl(s.Context(), "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes")
		return err
	})
}

func (s *scenario) withdrawUsage() {
	ctx, cancel := cleanupContext()
	defer cancel()
	if _, err := s.cluster.kubectl(ctx, "delete", "apiservice", "v1beta1.metrics.k8s.io", "--ignore-not-found"); err != nil {
		s.Errorf("withdraw metrics.k8s.io: %v", err)
	}
}

// ServeHTTP implements http.Handler.
func (u *usageAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1"), "/")
	var answer any
	var err error
	switch {
	case len(path) == 1: // discovery
		answer = &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.k8s.io/v1beta1",
			APIResources: []metav1.APIResource{
				{Name: "nodes", Kind: "NodeMetrics", Verbs: []string{"get", "list"}},
				{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: []string{"get", "list"}},
			},
		}
	case path[1] == "nodes":
		answer, err = u.nodes(r)
	case path[1] == "pods":
		answer, err = u.pods(r, "")
	case path[1] == "namespaces" && len(path) == 4 && path[3] == "pods":
		answer, err = u.pods(r, path[2])
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (u *usageAPI) nodes(r *http.Request) (*metricsv1beta1.NodeMetricsList, error) {
	nodes, err := u.kube.CoreV1().Nodes().List(r.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &metricsv1beta1.NodeMetricsList{TypeMeta: metav1.TypeMeta{Kind: "NodeMetricsList", APIVersion: "metrics.k8s.io/v1beta1"}}
	for i := range nodes.Items {
		list.Items = append(list.Items, metricsv1beta1.NodeMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: nodes.Items[i].Name}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: 10 * time.Second},
			Usage: amounts(nodeMillicores, nodeBytes),
		})
	}
	return list, nil
}

func (u *usageAPI) pods(r *http.Request, namespace string) (*metricsv1beta1.PodMetricsList, error) {
	pods, err := u.kube.CoreV1().Pods(namespace).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	if err != nil {
		return nil, err
	}
	list := &metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: "metrics.k8s.io/v1beta1"}}
	for i := range pods.Items {
		if pods.Items[i].Status.Phase != corev1.PodRunning {
			continue
		}
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: pods.Items[i].Name, Namespace: pods.Items[i].Namespace},
			Timestamp:  metav1.Now(), Window: metav1.Duration{Duration: 10 * time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{
				{Name: "formspec-resource", Usage: amounts(podMillicores-10, podBytes-1<<20)},
				{Name: "sidecar", Usage: amounts(10, 1<<20)},
			},
		})
	}
	return list, nil
}

func amounts(millicores, bytes int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(millicores, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI),
	}
}

// used returns an error unless a slot has what usageAPI says of pods that ran for so many seconds in it, within 1 %. Records are in whole units.
func used(u clustercontrol.Usage, podSeconds float64) error {
	for what, row := range map[string]struct {
		have *int64
		want float64
	}{
		"millicore seconds": {u.CPUMillicoreSeconds, podMillicores * podSeconds},
		"byte seconds":      {u.MemoryByteSeconds, podBytes * podSeconds},
		"pod seconds":       {u.PodSeconds, podSeconds},
	} {
		switch {
		case row.have == nil:
			return fmt.Errorf("the slot %s has unknown %s", u.Key, what)
		case math.Abs(float64(*row.have)-row.want) > row.want/100+0.5:
			return fmt.Errorf("the slot %s has %d %s, want %.1f", u.Key, *row.have, what, row.want)
		}
	}
	return nil
}
