// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// rewritten is a ConfigMap whose region a policy changes whenever it is written, as it was at the start.
func rewritten(in *workspace.Input) {
	asked := in.Children.ConfigMap.Ours
	got := *asked
	got.Data = maps.Clone(asked.Data)
	got.Data["region"] = "policy"
	in.Children.ConfigMap.Ours = &got
	in.Children.ConfigMap.Rewritten = &reconcile.Rewritten{
		Asked: reconcile.Fingerprint(asked), Got: reconcile.Fingerprint(&got), Fields: reconcile.Differences(asked, &got), At: start,
	}
}

// hidden is a policy that takes away the label by which the caches select, so that they show nothing.
func hidden(in *workspace.Input) {
	rewritten(in)
	in.Children.ConfigMap.Live, in.Children.ConfigMap.Ours = nil, nil
	in.Children.ConfigMap.Rewritten.Fields = []string{"metadata.labels." + v1alpha1.LabelManagedBy}
}

func TestAPolicyThatHidesWhatIsOursIsNotFought(t *testing.T) {
	plan := workspace.Make(given(settled, ready(1), hidden, at(time.Minute)))
	if got := writes(plan); len(got) > 0 {
		t.Errorf("writes %q, want nothing", got)
	}
	got := conditionOf(plan.Status, v1alpha1.ConditionOverridden)
	if got.Status != isTrue || !strings.Contains(got.Message, `ConfigMap "formspec-resource-shop-config": metadata.labels.app.kubernetes.io/managed-by`) {
		t.Errorf("Overridden is %s, want it to name the label", asJSON(got))
	}
	plan = workspace.Make(given(settled, ready(1), hidden, at(5*time.Minute)))
	if got := writes(plan); !slices.Equal(got, []string{"ConfigMap if the name is free"}) {
		t.Errorf("writes %q after five minutes, want the ConfigMap", got)
	}
}

func TestAPolicyThatRewritesIsNotFought(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		writes  []string
		told    bool
	}{
		"the write has just been changed":        {[]option{rewritten}, nil, true},
		"it was changed almost five minutes ago": {[]option{rewritten, at(5*time.Minute - time.Second)}, nil, true},
		"it was changed five minutes ago: the policy may be gone": {
			[]option{rewritten, at(5 * time.Minute)}, []string{"ConfigMap if uid-of-ConfigMap"}, false,
		},
		"something else is wanted now": {
			[]option{rewritten, region("jakarta")}, []string{"ConfigMap if uid-of-ConfigMap", "Deployment if uid-of-Deployment"}, false,
		},
		"somebody changed it once more": {
			[]option{rewritten, func(in *workspace.Input) { in.Children.ConfigMap.Ours.WithData(map[string]string{"sla": "x"}) }},
			[]string{"ConfigMap if uid-of-ConfigMap"},
			false,
		},
		"the policy is gone and the write has arrived": {
			[]option{rewritten, func(in *workspace.Input) { in.Children.ConfigMap.Ours.Data["region"] = "" }}, nil, false,
		},
		"other children are written as ever": {
			[]option{rewritten, func(in *workspace.Input) {
				in.Children.Service.Ours = corev1ac.Service("formspec-resource-shop", "bank")
			}},
			[]string{"Service if uid-of-Service"},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := workspace.Make(given(append([]option{settled, ready(1)}, row.options...)...))
			if got := writes(plan); !slices.Equal(got, row.writes) {
				t.Errorf("writes %q, want %q", got, row.writes)
			}
			got := conditionOf(plan.Status, v1alpha1.ConditionOverridden)
			if told := got.Status == isTrue && strings.Contains(got.Message, `ConfigMap "formspec-resource-shop-config": data.region`); told != row.told || (!row.told && got.Type != "") {
				t.Errorf("Overridden is %s, want it to name the field: %v", asJSON(got), row.told)
			}
			if again := plan.After == 5*time.Minute; again != row.told {
				t.Errorf("looked at again after %s, want 5m: %v", plan.After, row.told)
			}
		})
	}
}

func TestFieldsOfAnOperatorOfBeforeAreTakenOverOnce(t *testing.T) {
	in := given(settled, ready(1))
	in.Children.Service.Legacy = true
	plan := workspace.Make(in)
	if len(plan.Apply) != 1 || *plan.Apply[0].Config.GetKind() != "Service" || !plan.Apply[0].Adopt {
		t.Fatalf("writes %q, want the Service, to take its fields over", writes(plan))
	}
	if got := readyCondition(plan.Status); got.Status != isTrue {
		t.Errorf("Ready is %s %s meanwhile, want True", got.Status, got.Reason)
	}
	in.Children.Service.Legacy = false
	if got := writes(workspace.Make(in)); len(got) > 0 {
		t.Errorf("writes %q afterwards, want nothing", got)
	}
}
