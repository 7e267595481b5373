// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts_test

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/hosts"
)

func claim(namespace, name string, age time.Duration, claimed ...string) *v1alpha1.Workspace {
	born := metav1.NewTime(time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC).Add(-age))
	return &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: born},
		Spec:       v1alpha1.WorkspaceSpec{ClusterClass: "economy", Hosts: claimed},
	}
}

// holding is a Workspace that has these hosts by its status.
func holding(ws *v1alpha1.Workspace, held ...string) *v1alpha1.Workspace {
	ws.Status.Hosts = held
	return ws
}

func economy(suffixes ...string) func(string) []string {
	return func(class string) []string {
		if class == "economy" {
			return suffixes
		}
		return nil
	}
}

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestAccept(t *testing.T) {
	noClass := claim("a", "shop", 0, "shop.apps.example.com")
	noClass.Spec.ClusterClass = "gone"
	for name, test := range map[string]struct {
		workspaces []*v1alpha1.Workspace
		accepted   map[string]types.NamespacedName
		refused    map[types.NamespacedName][]hosts.Refusal
	}{
		"nobody claims anything": {workspaces: []*v1alpha1.Workspace{claim("a", "shop", 0)}},
		"a host under a suffix": {
			workspaces: []*v1alpha1.Workspace{claim("a", "shop", 0, "shop.apps.example.com", "www.shop.apps.example.com")},
			accepted:   map[string]types.NamespacedName{"shop.apps.example.com": named("a", "shop"), "www.shop.apps.example.com": named("a", "shop")},
		},
		"the suffix itself, and one that only ends like it": {
			workspaces: []*v1alpha1.Workspace{claim("a", "shop", 0, "apps.example.com", "evilapps.example.com", ".apps.example.com")},
			refused: map[types.NamespacedName][]hosts.Refusal{named("a", "shop"): {
				{Host: "apps.example.com", Suffixes: []string{"apps.example.com"}},
				{Host: "evilapps.example.com", Suffixes: []string{"apps.example.com"}},
				{Host: ".apps.example.com", Suffixes: []string{"apps.example.com"}},
			}},
		},
		"a class that is missing": {
			workspaces: []*v1alpha1.Workspace{noClass},
			refused:    map[types.NamespacedName][]hosts.Refusal{named("a", "shop"): {{Host: "shop.apps.example.com"}}},
		},
		"of new claims the oldest Workspace's wins": {
			workspaces: []*v1alpha1.Workspace{claim("a", "young", time.Hour, "shop.apps.example.com", "young.apps.example.com"), claim("z", "old", 2*time.Hour, "shop.apps.example.com")},
			accepted:   map[string]types.NamespacedName{"shop.apps.example.com": named("z", "old"), "young.apps.example.com": named("a", "young")},
			refused:    map[types.NamespacedName][]hosts.Refusal{named("a", "young"): {{Host: "shop.apps.example.com", Owner: named("z", "old")}}},
		},
		"of the same age the first by name": {
			workspaces: []*v1alpha1.Workspace{claim("b", "a", 0, "x.apps.example.com"), claim("a", "c", 0, "x.apps.example.com"), claim("a", "b", 0, "x.apps.example.com")},
			accepted:   map[string]types.NamespacedName{"x.apps.example.com": named("a", "b")},
			refused: map[types.NamespacedName][]hosts.Refusal{
				named("a", "c"): {{Host: "x.apps.example.com", Owner: named("a", "b")}},
				named("b", "a"): {{Host: "x.apps.example.com", Owner: named("a", "b")}},
			},
		},
		"who has it keeps it": {
			workspaces: []*v1alpha1.Workspace{
				holding(claim("a", "young", time.Hour, "x.apps.example.com"), "x.apps.example.com"),
				claim("z", "old", 2*time.Hour, "x.apps.example.com", "y.apps.example.com"),
			},
			accepted: map[string]types.NamespacedName{"x.apps.example.com": named("a", "young"), "y.apps.example.com": named("z", "old")},
			refused:  map[types.NamespacedName][]hosts.Refusal{named("z", "old"): {{Host: "x.apps.example.com", Owner: named("a", "young")}}},
		},
		"who had it and claims it no longer": {
			workspaces: []*v1alpha1.Workspace{
				holding(claim("a", "young", time.Hour, "y.apps.example.com"), "x.apps.example.com"), claim("z", "old", 2*time.Hour, "x.apps.example.com"),
			},
			accepted: map[string]types.NamespacedName{"x.apps.example.com": named("z", "old"), "y.apps.example.com": named("a", "young")},
		},
		"who had it and may not any more": {
			workspaces: []*v1alpha1.Workspace{
				holding(claim("a", "young", time.Hour, "x.example.com"), "x.example.com"), claim("z", "old", 2*time.Hour, "x.apps.example.com"),
			},
			accepted: map[string]types.NamespacedName{"x.apps.example.com": named("z", "old")},
			refused:  map[types.NamespacedName][]hosts.Refusal{named("a", "young"): {{Host: "x.example.com", Suffixes: []string{"apps.example.com"}}}},
		},
		"of two who have it the oldest": {
			workspaces: []*v1alpha1.Workspace{
				holding(claim("a", "young", time.Hour, "x.apps.example.com"), "x.apps.example.com"),
				holding(claim("z", "old", 2*time.Hour, "x.apps.example.com"), "x.apps.example.com"),
			},
			accepted: map[string]types.NamespacedName{"x.apps.example.com": named("z", "old")},
			refused:  map[types.NamespacedName][]hosts.Refusal{named("a", "young"): {{Host: "x.apps.example.com", Owner: named("z", "old")}}},
		},
		"an older claim that is refused is in nobody's way": {
			workspaces: []*v1alpha1.Workspace{func() *v1alpha1.Workspace {
				old := claim("z", "old", time.Hour, "x.apps.example.com")
				old.Spec.ClusterClass = "gone"
				return old
			}(), claim("a", "young", 0, "x.apps.example.com")},
			accepted: map[string]types.NamespacedName{"x.apps.example.com": named("a", "young")},
			refused:  map[types.NamespacedName][]hosts.Refusal{named("z", "old"): {{Host: "x.apps.example.com"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // whatever the order of the list
				got := hosts.Accept(test.workspaces, economy("apps.example.com"))
				if !maps.Equal(got.Accepted, test.accepted) {
					t.Errorf("accepted %v, want %v", got.Accepted, test.accepted)
				}
				if len(got.Refused) != len(test.refused) || len(test.refused) > 0 && !reflect.DeepEqual(got.Refused, test.refused) {
					t.Errorf("refused %v, want %v", got.Refused, test.refused)
				}
				slices.Reverse(test.workspaces)
			}
		})
	}
}
