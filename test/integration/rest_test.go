// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// While nothing changes the operator sends nothing, neither writes nor reads, and a new operator finds nothing to do. Not parallel: it kills
// the operator.
func TestAtRest(t *testing.T) {
	s := given(t)
	count, window := 50, 20*time.Second
	if long() {
		count, window = 200, time.Minute
	}
	plain, scaled := s.class(), s.class(full)
	var tenants []*tenant
	for i := range count {
		class := plain
		if i%2 == 1 {
			class = scaled
		}
		tenants = append(tenants, s.workspace(fmt.Sprintf("shop-%d", i), class))
	}
	for _, w := range tenants {
		w.ready()
	}
	s.eventually("the autoscalers have been heard of", func() error { return s.autoscalersHeardOf(count / 2) })
	s.eventually("the operator is quiet", func() error {
		start := s.now()
		for time.Since(start.received) < 2*time.Second {
			if err := nothing(s.sentHere(start, plain, scaled)); err != nil {
				return err
			}
		}
		return nil
	})
	before := s.versions()

	// then
	start := s.now()
	s.lasts(window, "the operator sends nothing", func() error { return nothing(s.sentHere(start, plain, scaled)) })

	// when
	start = s.now()
	s.restart(syscall.SIGKILL)
	s.workspace("probe", plain).ready() // it was the last in the queue

	// then
	others := func(r request) bool { return !strings.Contains(r.Object.Name, "probe") && r.resource() != "events" }
	s.lasts(5*time.Second, "the new operator writes nothing", func() error { return nothing(s.sent(start, request.write, others)) })
	after := s.versions()
	for name, version := range before {
		if after[name] != version {
			t.Errorf("%s has changed", name)
		}
	}
}

func nothing(requests []request) error {
	if len(requests) > 0 {
		return fmt.Errorf("it sent:%s", list(requests))
	}
	return nil
}

// sentHere is what operators sent about the namespace or the classes.
func (s *scenario) sentHere(from mark, classes ...*v1alpha1.ClusterClass) []request {
	s.Helper()
	all, err := s.audit.between(s.Context(), from, s.now())
	s.must("read the audit log", err)
	return filter(all, func(r request) bool {
		for _, class := range classes {
			if r.Object.Namespace == "" && r.Object.Name == class.Name {
				return true
			}
		}
		return r.Object.Namespace == s.namespace
	})
}

func (s *scenario) autoscalersHeardOf(want int) error {
	list, err := s.formspec.FormspecV1alpha1().Workspaces(s.namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	have := 0
	for _, ws := range list.Items {
		for _, c := range ws.Status.Conditions {
			if c.Type == v1alpha1.ConditionAutoscalingActive {
				have++
			}
		}
	}
	if have != want {
		return fmt.Errorf("%d of %d Workspaces have the condition", have, want)
	}
	return nil
}

// versions are the resourceVersions of all Workspaces and the generations of all Deployments, which no operator may move at rest.
func (s *scenario) versions() map[string]string {
	s.Helper()
	versions := map[string]string{}
	workspaces, err := s.formspec.FormspecV1alpha1().Workspaces(s.namespace).List(s.Context(), metav1.ListOptions{})
	s.must("list the Workspaces", err)
	for _, ws := range workspaces.Items {
		versions["Workspace "+ws.Name] = ws.ResourceVersion
	}
	deployments, err := s.kube.AppsV1().Deployments(s.namespace).List(s.Context(), metav1.ListOptions{})
	s.must("list the Deployments", err)
	for _, d := range deployments.Items {
		versions["Deployment "+d.Name] = strconv.FormatInt(d.Generation, 10)
	}
	return versions
}
