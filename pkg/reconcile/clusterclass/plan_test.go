// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclass_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/clusterclass"
)

// start is when every test begins.
var start = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)

type option func(*clusterclass.Input)

// given is a class that nobody uses, and the options.
func given(options ...option) clusterclass.Input {
	in := clusterclass.Input{
		Now:   start,
		Class: &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: "std", UID: "uid", Generation: 3}},
	}
	for _, apply := range options {
		apply(&in)
	}
	return in
}

func usedBy(workspaces ...string) option {
	return func(in *clusterclass.Input) { in.Workspaces = workspaces }
}

func spec(change func(*v1alpha1.ClusterClassSpec)) option {
	return func(in *clusterclass.Input) { change(&in.Class.Spec) }
}

func held(in *clusterclass.Input) {
	in.Class.Finalizers = append(in.Class.Finalizers, "example.com/other", v1alpha1.ClusterClassFinalizer)
}

func deleted(in *clusterclass.Input) { in.Class.DeletionTimestamp = new(metav1.NewTime(start)) }

func TestFinalizer(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    reconcile.Finalizer
	}{
		"nobody uses it":                        {nil, reconcile.FinalizerKeep},
		"the first one uses it":                 {[]option{usedBy("bank/shop")}, reconcile.FinalizerAdd},
		"it is used and held":                   {[]option{usedBy("bank/shop"), held}, reconcile.FinalizerKeep},
		"the last one has gone":                 {[]option{held}, reconcile.FinalizerRemove},
		"deleted while it is used":              {[]option{usedBy("bank/shop"), held, deleted}, reconcile.FinalizerKeep},
		"deleted, and the last one has gone":    {[]option{held, deleted}, reconcile.FinalizerRemove},
		"deleted, and others hold it":           {[]option{usedBy("bank/shop"), deleted}, reconcile.FinalizerKeep},
		"deleted, nobody uses it, others do so": {[]option{deleted}, reconcile.FinalizerKeep},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clusterclass.Make(given(row.options...)).Finalizer; got != row.want {
				t.Errorf("finalizer %d, want %d", got, row.want)
			}
		})
	}
}

// An object that a plan has dealt with needs nothing more, and the same time later no other status.
func TestSteadyState(t *testing.T) {
	for name, options := range map[string][]option{
		"unused":  nil,
		"used":    {usedBy("bank/shop"), held},
		"going":   {usedBy("bank/shop"), held, deleted},
		"invalid": {spec(func(s *v1alpha1.ClusterClassSpec) { s.NodeType = "huge" })},
		"full":    {usedBy("a/a", "b/b"), held, spec(func(s *v1alpha1.ClusterClassSpec) { s.MaxWorkspaces, s.SLA = 1, "99" })},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(options...)
			in.Class.Status = clusterclass.Make(in).Status
			in.Now = start.Add(time.Hour)
			if p := clusterclass.Make(in); p.Finalizer != reconcile.FinalizerKeep || !equality.Semantic.DeepEqual(p.Status, in.Class.Status) {
				t.Errorf("the second plan is %+v, want what is there", p)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	const gone = ""
	type want struct{ ready, stalled, inUse, unenforced string } // status, reason and what the message has
	accepted := "True Accepted"
	for name, row := range map[string]struct {
		options []option
		want    want
	}{
		"an empty class": {nil, want{accepted, gone, "False NotInUse", gone}},
		"one Workspace": {
			[]option{usedBy("bank/shop")}, want{accepted, gone, "True InUse: 1 workspace names the class, which is deleted after it: bank/shop", gone},
		},
		"three Workspaces": {
			[]option{usedBy("a/a", "b/b", "c/c")}, want{accepted, gone, "True InUse: 3 workspaces name the class, which is deleted after the last of them: a/a, b/b, c/c", gone},
		},
		"more than are named": {
			[]option{usedBy("a/a", "b/b", "c/c", "d/d")}, want{accepted, gone, "True InUse: 4 workspaces name the class, which is deleted after the last of them: a/a, b/b, c/c, …", gone},
		},
		"going": {[]option{usedBy("bank/shop"), deleted}, want{"False Terminating: admits nobody", gone, "True InUse: 1 workspace", gone}},
		"a nodeType that there is not": {
			[]option{spec(func(s *v1alpha1.ClusterClassSpec) { s.NodeType = "huge" })},
			want{`False InvalidSpec: nodeType is "huge". Use dedicated, shared or dev`, `True InvalidSpec: nodeType is "huge"`, "False NotInUse", gone},
		},
		"a limit below zero": {
			[]option{spec(func(s *v1alpha1.ClusterClassSpec) { s.MaxWorkspaces = -1 })},
			want{"False InvalidSpec: maxWorkspaces is -1. Use a number that is not negative", "True InvalidSpec", "False NotInUse", gone},
		},
		"an image that is not pinned": {
			[]option{spec(func(s *v1alpha1.ClusterClassSpec) { s.ResourceImage = "formahub/formspec-resource:latest" })},
			want{"False InvalidSpec: has no fixed version. Use a version or a digest", "True InvalidSpec", "False NotInUse", gone},
		},
		"an image that is not pinned, in development": {
			[]option{spec(func(s *v1alpha1.ClusterClassSpec) { s.ResourceImage = "formahub/formspec-resource:latest" }), func(in *clusterclass.Input) { in.AllowUnpinned = true }},
			want{accepted, gone, "False NotInUse", gone},
		},
		"what cannot be read": {
			[]option{func(in *clusterclass.Input) {
				in.Class.Annotations = map[string]string{v1alpha1.AnnotationUndecodable: "maxWorkspaces: is text"}
			}},
			want{"False InvalidSpec: the stored class cannot be read: maxWorkspaces: is text. Correct the field", "True InvalidSpec", "False NotInUse", gone},
		},
		"going and invalid": {
			[]option{spec(func(s *v1alpha1.ClusterClassSpec) { s.NodeType = "huge" }), deleted},
			want{"False Terminating", "True InvalidSpec", "False NotInUse", gone},
		},
		"all that has an effect": {
			[]option{spec(func(s *v1alpha1.ClusterClassSpec) {
				s.Features, s.Region, s.Availability, s.NodeType = []string{v1alpha1.FeatureAutoScaling, v1alpha1.FeatureCrossAZFailover}, "jakarta", "multi-az", "dedicated"
				s.ResourceImage, s.MaxWorkspaces = "formahub/formspec-resource:1.4.3", 5
			})},
			want{accepted, gone, "False NotInUse", gone},
		},
		"what is only handed on": {
			[]option{spec(func(s *v1alpha1.ClusterClassSpec) {
				s.Features, s.SLA, s.Storage = []string{"ddos-protection", v1alpha1.FeatureAutoScaling, "teleport"}, "99.99", "nvme-ssd"
			})},
			want{accepted, gone, "False NotInUse", "True UnenforcedFeatures: ddos-protection, teleport, sla, storage"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := clusterclass.Make(given(row.options...)).Status
			for conditionType, wantText := range map[string]string{
				v1alpha1.ConditionReady: row.want.ready, v1alpha1.ConditionStalled: row.want.stalled,
				v1alpha1.ConditionInUse: row.want.inUse, v1alpha1.ConditionUnenforcedFeatures: row.want.unenforced,
			} {
				c := meta.FindStatusCondition(status.Conditions, conditionType)
				if wantText == gone {
					if c != nil {
						t.Errorf("%s is %s %s: %s, want none", conditionType, c.Status, c.Reason, c.Message)
					}
					continue
				}
				head, text, _ := strings.Cut(wantText, ": ")
				if c == nil || string(c.Status)+" "+c.Reason != head || !strings.Contains(c.Message, text) {
					t.Errorf("%s is %+v, want %s", conditionType, c, wantText)
				} else if c.ObservedGeneration != 3 || !c.LastTransitionTime.Time.Equal(start) {
					t.Errorf("%s is of generation %d and time %s", conditionType, c.ObservedGeneration, c.LastTransitionTime)
				}
			}
			if status.ObservedGeneration != 3 {
				t.Errorf("observedGeneration %d, want 3", status.ObservedGeneration)
			}
		})
	}
}

func TestConditionsGoAndComeBack(t *testing.T) {
	in := given(spec(func(s *v1alpha1.ClusterClassSpec) { s.NodeType, s.SLA = "huge", "99" }), usedBy("a/a"))
	in.Class.Status = clusterclass.Make(in).Status
	in.Class.Spec, in.Workspaces, in.Now = v1alpha1.ClusterClassSpec{}, nil, start.Add(time.Minute)
	in.Class.Generation++
	status := clusterclass.Make(in).Status
	var types []string
	for _, c := range status.Conditions {
		types = append(types, c.Type+"="+string(c.Status))
		if !c.LastTransitionTime.Time.Equal(in.Now) {
			t.Errorf("%s changed at %s, want now", c.Type, c.LastTransitionTime)
		}
	}
	slices.Sort(types)
	if want := []string{"InUse=False", "Ready=True"}; !slices.Equal(types, want) {
		t.Errorf("conditions %q, want %q", types, want)
	}
}

func TestCounts(t *testing.T) {
	in := given(usedBy("a/a", "b/b", "c/c"), func(in *clusterclass.Input) { in.Admitted = 2 })
	if s := clusterclass.Make(in).Status; s.Workspaces != 3 || s.Admitted != 2 {
		t.Errorf("%d workspaces, %d admitted, want 3 and 2", s.Workspaces, s.Admitted)
	}
}

func TestAPlanChangesNothingThatItIsGiven(t *testing.T) {
	in := given(usedBy("a/a"), spec(func(s *v1alpha1.ClusterClassSpec) { s.Features = []string{"z", "a"} }))
	in.Class.Status = clusterclass.Make(given()).Status
	before := in.Class.DeepCopy()
	clusterclass.Make(in)
	if !equality.Semantic.DeepEqual(before, in.Class) {
		t.Errorf("the class was changed:\n was %+v\n  is %+v", before, in.Class)
	}
}
