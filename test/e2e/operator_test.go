// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// What manifests/ install.
const (
	systemNamespace  = "formspec-system"
	operatorName     = "formspec-operator"
	operatorSelector = "app.kubernetes.io/name=" + operatorName
)

// replicas are the operator's pods that are not being deleted, once there are two and both are Ready.
func (s *scenario) replicas() []corev1.Pod {
	s.Helper()
	return s.running(systemNamespace, operatorSelector, 2)
}

// running are the pods of a Deployment that are not being deleted, once there are so many and all are Ready.
func (s *scenario) running(namespace, selector string, n int) []corev1.Pod {
	s.Helper()
	var pods []corev1.Pod
	s.eventually(fmt.Sprintf("there are %d pods with %s", n, selector), func() error {
		list, err := s.kube.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		pods = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || !podReady(&p) })
		if len(pods) != n {
			return fmt.Errorf("of %d pods %d are Ready", len(list.Items), len(pods))
		}
		return nil
	})
	return pods
}

// leader is the pod that holds the lease.
func (s *scenario) leader() string {
	s.Helper()
	var name string
	s.eventually("a replica leads", func() error {
		lease, err := s.kube.CoordinationV1().Leases(systemNamespace).Get(s.Context(), operatorName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		// The identity begins with the host's name, which in a pod is the pod's.
		name, _, _ = strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		if name == "" {
			return errors.New("nobody holds the lease")
		}
		return nil
	})
	return name
}

// metrics of one replica.
func (s *scenario) metrics(pod corev1.Pod) (string, error) {
	// The certificate is one that the operator made for itself.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+pod.Status.PodIP+":8443/metrics", nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// As installed, two replicas run, and one of them leads and says so.
func TestOperator(t *testing.T) {
	s := given(t)
	s.workspace("shop", s.class()).ready()

	replicas, leader := s.replicas(), s.leader()
	leads := 0
	for _, pod := range replicas {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				t.Errorf("replica %s has restarted %d times", pod.Name, c.RestartCount)
			}
		}
		metrics, err := s.metrics(pod)
		s.must("get the metrics of "+pod.Name, err)
		says := strings.Contains(metrics, `leader_election_master_status{name="formspec-operator"} 1`)
		if says != (pod.Name == leader) {
			t.Errorf("%s holds the lease, and of %s the metrics say that it leads: %t", leader, pod.Name, says)
		}
		if says {
			leads++
		}
		if works := strings.Contains(metrics, `outcome="success"`); works != says {
			t.Errorf("replica %s leads: %t, and has synced something: %t", pod.Name, says, works)
		}
	}
	if leads != 1 {
		t.Errorf("%d replicas lead", leads)
	}
}

// When the leader's pod goes another takes over, the standby or the successor, and no pod of a tenant notices.
func TestFailover(t *testing.T) {
	s := given(t)
	class := s.class()
	shop := s.workspace("shop", class).serving()
	pod := shop.pods()[0].Name
	pods, before, traffic := shop.watchPods(), shop.deployment(), shop.traffic(2)
	s.replicas()
	leader := s.leader()

	// when
	err := s.kube.CoreV1().Pods(systemNamespace).Delete(s.Context(), leader, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	s.must("delete the leader", err)

	// then
	s.eventually("another replica leads", func() error {
		if have := s.leader(); have == leader {
			return fmt.Errorf("%s still leads", have)
		}
		return nil
	})
	s.workspace("after", class).ready()
	s.replicas()
	traffic.answeredBy(pod)
	traffic.unbroken()
	pods.were(pod)
	if after := shop.deployment(); after.Generation != before.Generation {
		t.Errorf("the Deployment was changed: its generation went from %d to %d", before.Generation, after.Generation)
	}
}
