// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// way is one on which requests reach a Workspace, and how long they took.
type way struct {
	name   string
	client *http.Client
	took   []time.Duration
}

// What the activator costs a request to a Workspace that is awake, compared with the least that a proxy can do in the same place, and with no
// proxy at all. The figures are for docs/performance.md.
func TestLatency(t *testing.T) {
	if !long() {
		t.Skip("short latencies are measured in the long form only: make e2e-long")
	}
	s := given(t)
	const clients, requests, rounds = 50, 20, 120
	shop := s.workspace("shop", s.class(economy(time.Hour))).serving().watched()
	pod := shop.pods()[0].Status.PodIP + ":8080"
	activator := s.activators()[0]
	bare := s.bareProxy(pod, activator)
	ways := []*way{{name: "activator"}, {name: "bare"}, {name: "direct"}}
	for i, address := range []string{activator.Status.PodIP + ":8080", bare + ":8080", pod} {
		transport := transportTo(address)
		transport.MaxIdleConnsPerHost = clients
		defer transport.CloseIdleConnections()
		ways[i].client = &http.Client{Transport: transport}
	}
	for round := range rounds {
		for i := range ways { // taking turns, so that all meet the same weather
			w := ways[(i+round)%len(ways)]
			took, err := w.round(shop.url("/health"), clients, requests)
			s.must("ask by "+w.name, err)
			if round >= rounds/20 { // after a start that is not steady
				w.took = append(w.took, took...)
			}
		}
	}
	for _, p := range []int{50, 99} {
		var at []time.Duration
		for _, w := range ways {
			at = append(at, percentile(w.took, p))
		}
		ratio := float64(at[0]) / float64(at[1])
		t.Logf("%d requests each way by %d clients, p%d: activator %s, bare proxy %s, direct %s; activator/bare %.3f", len(ways[0].took), clients, p, at[0], at[1], at[2], ratio)
		if ratio > 1.1 {
			t.Errorf("at p%d the activator takes %.3f times as long as a bare proxy", p, ratio)
		}
	}
}

// round lets clients send requests, each one after the other.
func (w *way) round(url string, clients, requests int) ([]time.Duration, error) {
	var (
		mu      sync.Mutex
		all     []time.Duration
		failed  error
		running sync.WaitGroup
	)
	for range clients {
		running.Go(func() {
			own := make([]time.Duration, 0, requests)
			var err error
			for range requests {
				var took time.Duration
				if took, err = w.once(url); err != nil {
					break
				}
				own = append(own, took)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			if err != nil {
				failed = err
			}
		})
	}
	running.Wait()
	return all, failed
}

func (w *way) once(url string) (time.Duration, error) {
	started := time.Now()
	response, err := w.client.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the answer is %s", response.Status)
	}
	return time.Since(started), nil
}

// bareProxy runs a proxy that is nothing but that, in a pod like an activator's, and returns its address.
func (s *scenario) bareProxy(target string, like corev1.Pod) string {
	s.Helper()
	build := exec.CommandContext(s.Context(), "go", "build", "-C", root, "-trimpath", "-o", s.path("bareproxy"), "./test/bareproxy")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	s.must("build the bare proxy: "+string(out), err)
	image := "formspec.example/bareproxy:" + s.namespace
	_, err = s.cluster.devcluster(s.Context(), "image", image, s.path("bareproxy"), "--env", "TARGET=http://"+target)
	s.must("load its image", err)
	own := like.Spec.Containers[0]
	pod, err := s.kube.CoreV1().Pods(v1alpha1.ActivatorNamespace).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bareproxy-"},
		Spec: corev1.PodSpec{
			NodeSelector: like.Spec.NodeSelector, SecurityContext: like.Spec.SecurityContext, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "proxy", Image: image, Env: own.Env, Resources: own.Resources, SecurityContext: own.SecurityContext}},
		},
	}, metav1.CreateOptions{})
	s.must("create the bare proxy", err)
	pods := s.kube.CoreV1().Pods(pod.Namespace)
	s.Cleanup(func() { _ = pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{}) })
	s.eventually("the bare proxy runs", func() error {
		if pod, err = pods.Get(s.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !podReady(pod) {
			return fmt.Errorf("its status is %+v", pod.Status)
		}
		return nil
	})
	return pod.Status.PodIP
}
