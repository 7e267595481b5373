// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// What is in trouble comes to rest, too: its status is written once, not with every attempt.
func TestTroubleComesToRest(t *testing.T) {
	t.Parallel()
	s := given(t)
	with := func(change func(*v1alpha1.ClusterClassSpec)) *v1alpha1.ClusterClass {
		return s.class(func(class *v1alpha1.ClusterClass) { change(&class.Spec) })
	}
	nothing := func(*v1alpha1.ClusterClassSpec) {}
	quota(`count/deployments.apps`, "4")(s) // as many as there are below
	classes := []*v1alpha1.ClusterClass{
		with(nothing),
		with(func(c *v1alpha1.ClusterClassSpec) { c.ResourceImage = "example.com/app:broken" }),
		with(func(c *v1alpha1.ClusterClassSpec) { c.NodeType = v1alpha1.NodeTypeShared }),
		with(func(c *v1alpha1.ClusterClassSpec) { c.MaxWorkspaces = 1 }),
		with(func(c *v1alpha1.ClusterClassSpec) { c.NodeType = "quantum" }),
	}
	s.workspace("good", classes[0]).ready()
	s.workspace("crashes", classes[1]).failing(v1alpha1.ReasonCrashLoopBackOff)
	s.workspace("nowhere", classes[2]).failing(v1alpha1.ReasonUnschedulable)
	s.workspace("first", classes[3]).ready()
	s.workspace("second", classes[3]).failing(v1alpha1.ReasonClassFull)
	s.workspace("invalid", classes[4]).failing(v1alpha1.ReasonInvalidSpec)
	s.workspace("refused", classes[0]).failing(v1alpha1.ReasonQuotaExceeded)
	s.workspace("elsewhere", classes[0], func(ws *v1alpha1.Workspace) { ws.Spec.Cluster = "another" }).failing(v1alpha1.ReasonOtherCluster)
	s.workspace("lost", &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}).failing(v1alpha1.ReasonClusterClassNotFound)

	versions := func() map[string]string {
		all := map[string]string{}
		list, err := s.formspec.FormspecV1alpha1().Workspaces(s.namespace).List(s.Context(), metav1.ListOptions{})
		s.must("list the Workspaces", err)
		for _, ws := range list.Items {
			all[ws.Name] = ws.ResourceVersion
		}
		for i, class := range classes {
			all[fmt.Sprintf("class %d", i)] = s.classNow(class.Name).ResourceVersion
		}
		return all
	}
	before, since := versions(), time.Now()
	s.eventually("everything has come to rest", func() error {
		now := versions()
		if err := sameVersions(before, now); err != nil {
			before, since = now, time.Now()
			return err
		}
		if quiet := time.Since(since); quiet < 3*time.Second {
			return fmt.Errorf("nothing has changed for %s", quiet)
		}
		return nil
	})
	span := atRest()
	if !long() {
		span *= 3 // some attempts are made every 30 s
	}
	s.lasts(span, "no status is written", func() error { return sameVersions(before, versions()) })
}

func sameVersions(before, after map[string]string) error {
	for name, version := range before {
		if after[name] != version {
			return fmt.Errorf("%s has version %s, had %s", name, after[name], version)
		}
	}
	return nil
}
