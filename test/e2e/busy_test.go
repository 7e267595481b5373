// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// at reaches one activator pod, past the Service.
func at(pod corev1.Pod) *http.Client {
	transport := transportTo(net.JoinHostPort(pod.Status.PodIP, "8080"))
	transport.DisableKeepAlives = true
	return &http.Client{Transport: transport}
}

// kill lets an activator pod die without a word, and waits for its successor.
func (s *scenario) kill(activator corev1.Pod, others int) {
	s.Helper()
	err := s.kube.CoreV1().Pods(activator.Namespace).Delete(s.Context(), activator.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	s.must("kill an activator", err)
	s.activatorsOnly(others + 1)
}

// stayedAwake fails if the Workspace has slept since its Deployment was as before, or if its pods have changed.
func (l *podLog) stayedAwake(before int64, pod string) {
	l.Helper()
	l.were(pod)
	if d := l.deployment(); d.Generation != before {
		l.Errorf("the Deployment's generation went from %d to %d", before, d.Generation)
	}
	if phase := l.get().Status.Phase; phase != v1alpha1.PhaseReady {
		l.Errorf("the phase is %s", phase)
	}
}

// A request that runs for longer than the window keeps its Workspace awake, and so does one request in each third of a window that comes
// by another replica each time. That one of them dies changes nothing. Afterwards both fall asleep.
func TestBusyWorkspacesDoNotSleep(t *testing.T) {
	s := given(t)
	window, response, period := either(60*time.Second, shortestWindow), either(150*time.Second, 18*time.Second), either(20*time.Second, shortestWindow/3)
	class := s.class(economy(window))
	slow, seldom := s.workspace("slow", class), s.workspace("seldom", class)
	var logs []*podLog
	var names []string
	var generations []int64
	for _, w := range []*tenant{slow, seldom} {
		pods := w.serving().watched().watchPods()
		logs, names, generations = append(logs, pods), append(names, pods.nextReady().name), append(generations, w.deployment().Generation)
	}
	activators := s.activators()

	// when
	ctx, cancel := context.WithTimeout(t.Context(), response+patience)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, slow.url(fmt.Sprintf("/slow?seconds=%d", int(response.Seconds()))), nil)
		if err != nil {
			answered <- err
			return
		}
		got, err := at(activators[0]).Do(r)
		if err == nil {
			defer got.Body.Close()
			if got.StatusCode != http.StatusOK {
				err = fmt.Errorf("the answer is %s", got.Status)
			}
		}
		answered <- err
	}()
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	asked, other := 0, activators[1]
	for ended := false; !ended; asked++ {
		if asked == 3 {
			s.kill(other, 1)
			other = s.otherThan(activators[0])
		}
		to := []corev1.Pod{activators[0], other}[asked%2]
		s.must("ask by "+to.Name, request(ctx, at(to), seldom.url("/"), new(seen)))
		select {
		case <-ticks.C:
		case err := <-answered:
			s.must("get the answer that takes long", err)
			ended = true
		}
	}

	// then
	if asked < 4 {
		t.Errorf("only %d requests were sent", asked)
	}
	for i, pods := range logs {
		pods.stayedAwake(generations[i], names[i])
	}
	slow.asleep()
	seldom.asleep()
}

// otherThan is the other activator.
func (s *scenario) otherThan(one corev1.Pod) corev1.Pod {
	s.Helper()
	for _, pod := range s.activators() {
		if pod.Name != one.Name {
			return pod
		}
	}
	s.Fatalf("%s is the only activator", one.Name)
	return corev1.Pod{}
}

// restartOperator replaces all replicas of the operator, and waits until one leads.
func (s *scenario) restartOperator() {
	s.Helper()
	var old []string
	for _, replica := range s.replicas() {
		old = append(old, replica.Name)
		err := s.kube.CoreV1().Pods(systemNamespace).Delete(s.Context(), replica.Name, metav1.DeleteOptions{})
		s.must("delete a replica of the operator", err)
	}
	s.replicas()
	s.eventually("a new replica leads", func() error {
		if leader := s.leader(); slices.Contains(old, leader) {
			return fmt.Errorf("%s still leads", leader)
		}
		return nil
	})
}

// Neither an operator that restarts nor an API server that is away costs a Workspace that is awake a request, or puts it to sleep.
func TestOutages(t *testing.T) {
	s := given(t)
	outage := either(60*time.Second, shortestWindow)
	shop := s.workspace("shop", s.class(economy(shortestWindow))).serving().watched()
	pods := shop.watchPods()
	pod, before, traffic := pods.nextReady().name, shop.deployment().Generation, shop.traffic(2)
	traffic.answeredBy(pod)

	// when the operator restarts
	s.restartOperator()
	s.pass(either(2*shortestWindow, 0)) // or an operator that takes it for idle would not have had the time; here it has it below
	traffic.answeredBy(pod)
	pods.stayedAwake(before, pod)

	// when the API server is away
	_, err := s.cluster.devcluster(t.Context(), "stop", "kube-apiserver")
	s.must("stop the API server", err)
	s.pass(outage)
	count := traffic.count(pod)
	_, err = s.cluster.devcluster(t.Context(), "start", "kube-apiserver")
	s.must("start the API server", err)
	if count == 0 {
		t.Error("nobody was asked while the API server was away")
	}

	// then
	s.pass(either(2*shortestWindow, shortestWindow+shortestWindow/2))
	traffic.answeredBy(pod)
	traffic.unbroken()
	s.replicas()
	s.activators()
	if d := shop.deployment(); d.Generation != before {
		t.Errorf("the Deployment's generation went from %d to %d", before, d.Generation)
	}
	if all := shop.pods(); len(all) != 1 || all[0].Name != pod || !strings.HasPrefix(string(all[0].Status.Phase), "Running") {
		t.Errorf("the pods are %+v", all)
	}
	shop.asleep()
	// A leader that cannot renew its lease ends, as it should. To other tests that would look like a crash.
	s.restartOperator()
}
