// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// While nothing changes the operator sends nothing, neither writes nor reads, and nobody's resourceVersion moves; nor does any of five new
// operators find something to do, whatever order its maps have, for Workspaces with two dozen variables from three claims. FR-12, FR-25.
//
// FR-25 asks for the last five of ten minutes. The first five are for things to come to rest, which is not waited for but seen.
func silentAtRest(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	shops, stores, window := 24, 6, 10*time.Second
	if long() {
		shops, stores, window = 300, 50, 5*time.Minute
	}
	const claims, restarts = 3, 5
	me, user := s.publishedOwner(), s.login()
	for i := range stores {
		me.datastore(fmt.Sprintf("pg-%d", i), v1alpha1.DriverPostgres, user.uri())
	}
	me.datastore("bad", v1alpha1.DriverPostgres, user.uriWith("wrong")).failing(v1alpha1.ReasonAuthenticationFailed)
	plain, scaled := s.class(), s.class(full)
	var tenants []*tenant
	for i := range shops {
		name, class := fmt.Sprintf("shop-%d", i), plain
		if i%2 == 1 {
			class = scaled
		}
		var listed []func(*v1alpha1.Workspace)
		for j := range claims {
			pg := fmt.Sprintf("pg-%d", (i+j)%stores)
			me.grant(name+"."+pg, pg, name)
			listed = append(listed, lists(pg, v1alpha1.DriverPostgres))
		}
		tenants = append(tenants, s.workspace(name, class, listed...))
	}
	for _, w := range tenants {
		w.ready()
	}
	if env := tenants[0].deployment().Spec.Template.Spec.Containers[0].Env; len(env) < 20 {
		t.Fatalf("a Workspace has %d variables: too few to show an order", len(env))
	}
	s.eventually("the autoscalers have been heard of", func() error { return s.autoscalersHeardOf(shops / 2) })
	// A datastore that fails is tried again, with the endpoint Secret as it is now.
	probes := func(r request) bool { return !r.write() && r.Object.Name == "bad" }
	sent := func(from mark) error {
		return nothing(filter(s.sentHere(from, plain, scaled), func(r request) bool { return !probes(r) }))
	}
	s.eventually("the operator is quiet", func() error {
		start := s.now()
		for time.Since(start.received) < 2*time.Second {
			if err := sent(start); err != nil {
				return err
			}
		}
		return nil
	})
	before := s.versions()

	// then
	start := s.now()
	s.lasts(window, "the operator sends nothing", func() error { return sent(start) })
	if err := sameVersions(before, s.versions()); err != nil {
		t.Error(err)
	}

	// when
	start = s.now()
	for i := range restarts {
		s.restart(syscall.SIGKILL)
		s.workspace(fmt.Sprintf("probe-%d", i), plain).ready() // it was the last in the queue
	}

	// then
	others := func(r request) bool {
		return !probes(r) && !strings.Contains(r.Object.Name, "probe-") && r.resource() != "events"
	}
	s.lasts(3*time.Second, "the new operators neither write nor read", func() error { return nothing(s.sent(start, others)) })
	if err := sameVersions(before, s.versions()); err != nil {
		t.Error(err)
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

// versions are the resourceVersions of all our objects, and of all Deployments the generation and how often their pods were rolled, none of
// which an operator may move at rest.
func (s *scenario) versions() map[string]string {
	s.Helper()
	versions := map[string]string{}
	for _, resource := range []string{"workspaces", "datastores", "resourceclaims"} {
		list, err := s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Namespace(s.namespace).List(s.Context(), metav1.ListOptions{})
		s.must("list the "+resource, err)
		for _, object := range list.Items {
			versions[resource+"/"+object.GetName()] = object.GetResourceVersion()
		}
	}
	replicaSets, err := s.kube.AppsV1().ReplicaSets(s.namespace).List(s.Context(), metav1.ListOptions{})
	s.must("list the ReplicaSets", err)
	revisions := map[string]int{}
	for _, rs := range replicaSets.Items {
		revisions[metav1.GetControllerOf(&rs).Name]++
	}
	deployments, err := s.kube.AppsV1().Deployments(s.namespace).List(s.Context(), metav1.ListOptions{})
	s.must("list the Deployments", err)
	for _, d := range deployments.Items {
		versions["deployments/"+d.Name] = fmt.Sprintf("generation %d with %d ReplicaSets", d.Generation, revisions[d.Name])
	}
	return versions
}
