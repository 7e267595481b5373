// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// rewritten is a policy that changed the region in the ConfigMap when it was last written.
func rewritten(in *workspace.Input) {
	asked := in.Children.ConfigMap.Ours
	got := corev1ac.ConfigMapApplyConfiguration(*asked)
	got.Data = map[string]string{"region": "elsewhere"}
	in.Children.ConfigMap.Ours = &got
	in.Children.ConfigMap.Rewritten = &reconcile.Rewritten{
		Asked: reconcile.Fingerprint(asked), Got: reconcile.Fingerprint(&got), Fields: []string{"data.region"}, At: start,
	}
}

// hidden is a policy that took the label off, so that the cache shows nothing.
func hidden(in *workspace.Input) {
	rewritten(in)
	in.Children.ConfigMap.Live, in.Children.ConfigMap.Ours = nil, nil
	in.Children.ConfigMap.Rewritten.Fields = []string{"metadata.labels.app.kubernetes.io/managed-by"}
}

func TestWhatAPolicyRewritesIsNotFought(t *testing.T) {
	otherClass := class(func(c *v1alpha1.ClusterClass) { c.Spec.SLA = "99.9" })
	for name, row := range map[string]struct {
		options []option
		writes  string
		says    string // in the condition; empty: there is none
	}{
		"it was changed a minute ago":     {[]option{settled, ready(1), rewritten, at(time.Minute)}, "", `ConfigMap "formspec-resource-shop-config": data.region`},
		"it was changed long ago":         {[]option{settled, ready(1), rewritten, at(time.Hour)}, "ConfigMap", ""},
		"something else is wanted":        {[]option{settled, ready(1), rewritten, otherClass, at(time.Minute)}, "ConfigMap", ""},
		"its label was changed":           {[]option{settled, ready(1), hidden, at(time.Minute)}, "", `ConfigMap "formspec-resource-shop-config": metadata.labels.app.kubernetes.io/managed-by`},
		"its label was changed, long ago": {[]option{settled, ready(1), hidden, at(time.Hour)}, "ConfigMap", ""},
	} {
		t.Run(name, func(t *testing.T) {
			plan := workspace.Make(given(row.options...))
			var kinds []string
			for _, write := range plan.Apply {
				kinds = append(kinds, *write.Config.GetKind())
			}
			if got := strings.Join(kinds, ","); got != row.writes {
				t.Errorf("writes %q, want %q", got, row.writes)
			}
			c := conditionOf(plan.Status, v1alpha1.ConditionOverridden)
			switch {
			case row.says == "" && c.Type != "":
				t.Errorf("Overridden is %s: %s", c.Status, c.Message)
			case row.says != "" && (c.Status != metav1.ConditionTrue || !strings.HasSuffix(c.Message, "which is not fought: "+row.says)):
				t.Errorf("Overridden is %q: %q, want %q", c.Status, c.Message, row.says)
			case row.says != "" && plan.After != reconcile.OverriddenRetry:
				t.Errorf("it looks again after %s, want %s", plan.After, reconcile.OverriddenRetry)
			}
			if r := readyCondition(plan.Status); r.Status != metav1.ConditionTrue {
				t.Errorf("Ready is %s %s: %s", r.Status, r.Reason, r.Message)
			}
		})
	}
}
