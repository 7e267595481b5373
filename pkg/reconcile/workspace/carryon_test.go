// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// foreign is somebody else's ConfigMap under the name of the workspace's.
func foreign(in *workspace.Input) {
	in.Children.ConfigMap = workspace.ConfigMap{Live: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: "formspec-resource-shop-config", OwnerReferences: []metav1.OwnerReference{{UID: "a stranger", Controller: new(true)}},
	}}}
}

// Nobody may be cut off because something has to be corrected: activators come and go meanwhile.
func TestUnderAnObstacleRequestsFindTheirWay(t *testing.T) {
	all := map[string]option{"a taken name": foreign, "no slot": waiting}
	for name, row := range obstacles {
		all[name] = row.given
	}
	for obstacle, blocked := range all {
		for name, row := range map[string]struct {
			options []option
			want    string
		}{
			"nothing changes":                    {[]option{economy, blocked, settled}, ""},
			"other activators":                   {[]option{economy, blocked, activators("10.0.0.8")}, "slice shop-activator to [10.0.0.8]"},
			"no activator any more":              {[]option{economy, blocked, activators()}, "Service shop selects=true"},
			"no activator, and the pods are":     {[]option{economy, blocked, activators(), planned, theirs(true)}, "delete EndpointSlice shop-activator"},
			"the old way is left behind":         {[]option{economy, theirs(true), blocked}, "delete Endpoints shop, delete EndpointSlice shop-x7k2p"},
			"the slice is gone":                  {[]option{economy, blocked, func(in *workspace.Input) { in.Children.Slice = workspace.Slice{} }}, "slice shop-activator to [10.0.0.1][10.0.0.2]"},
			"it never ran":                       {[]option{scaleToZero, blocked}, ""},
			"it was never led to the activator":  {[]option{settled, ready(1), scaleToZero, blocked}, ""},
			"its Service is somebody else's now": {[]option{economy, blocked, strangersService, activators("10.0.0.8")}, ""},
		} {
			t.Run(obstacle+"/"+name, func(t *testing.T) {
				if got := routing(workspace.Make(given(row.options...))); got != row.want {
					t.Errorf("it does\n%s, want\n%s", got, row.want)
				}
			})
		}
	}
}

func strangersService(in *workspace.Input) {
	in.Children.Service.Live = in.Children.Service.Live.DeepCopy()
	in.Children.Service.Live.OwnerReferences[0].UID, in.Children.Service.Ours = "a stranger", nil
}

func TestUnderAnObstacleARequestWakes(t *testing.T) {
	for obstacle, blocked := range obstacles {
		for name, row := range map[string]struct {
			options []option
			want    string // the replicas that the Deployment ends up with, and when to look again
		}{
			"asleep":                      {[]option{sleeps, blocked.given}, "0"},
			"a request":                   {[]option{sleeps, blocked.given, request}, "1"},
			"a request after failed ones": {[]option{sleeps, blocked.given, request, func(in *workspace.Input) { in.Traffic.Backoff = 20 * time.Second }}, "0, again in 20s"},
			"kept awake":                  {[]option{sleeps, blocked.given, keepAwake("2026-07-10T10:30:00Z")}, "1, again in 30m0s"},
			"the operator stops it":       {[]option{sleeps, blocked.given, mode(workspace.ModeOff)}, "1"},
			"asleep without an activator": {[]option{sleeps, blocked.given, activators()}, "0"},
			"awake, and the window ends":  {[]option{economy, blocked.given, quietFor(time.Hour)}, "1"},
			"awake, and told to be idle":  {[]option{economy, blocked.given, idle}, "1"},
		} {
			t.Run(obstacle+"/"+name, func(t *testing.T) {
				in := given(row.options...)
				plan := workspace.Make(in)
				in = then(in, planned)
				got := strconv.Itoa(int(ptr.Deref(in.Children.Deployment.Live.Spec.Replicas, -1)))
				if plan.After > 0 {
					got += ", again in " + plan.After.String()
				}
				if got != row.want || plan.FallsAsleep {
					t.Errorf("replicas %s, want %s; falls asleep: %v", got, row.want, plan.FallsAsleep)
				}
				expectFailure(t, workspace.Make(in), blocked.reason, blocked.stalled, blocked.message)
				settled(&in)
			})
		}
	}
}

// A wake gives back what ran before, and changes nothing else.
func TestUnderAnObstacleAWakeGivesBackWhatRan(t *testing.T) {
	two := both(economy, minimum(2), settled, idle, settled)
	renamed := class(func(c *v1alpha1.ClusterClass) { c.Name = "other" })
	for name, row := range map[string]struct {
		options  []option
		replicas int32
		sleep    string
	}{
		"the class that it ran with":    {[]option{two, both(region("a"), classRegion("b")), request}, 2, "woken"},
		"another class":                 {[]option{two, renamed, minimum(5), waiting, request}, 1, "woken"},
		"no class":                      {[]option{two, noClass, request}, 1, "woken"},
		"nobody calls it idle any more": {[]option{two, both(region("a"), classRegion("b")), busy}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := given(row.options...)
			after := then(before, planned)
			want := before.Children.Deployment.Live.DeepCopy()
			want.Spec.Replicas = &row.replicas
			if delete(want.Annotations, v1alpha1.AnnotationSleep); row.sleep != "" {
				want.Annotations[v1alpha1.AnnotationSleep] = row.sleep
			}
			got := after.Children.Deployment.Live
			if asJSON(got.Spec) != asJSON(want.Spec) || asJSON(got.Annotations) != asJSON(want.Annotations) {
				t.Errorf("the Deployment is\n%s %s, want\n%s %s", asJSON(got.Annotations), asJSON(got.Spec), asJSON(want.Annotations), asJSON(want.Spec))
			}
		})
	}
}
