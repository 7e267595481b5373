// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

func TestCredentialsAreWithdrawnWhateverElseIsWrong(t *testing.T) {
	for name, obstacle := range map[string]option{
		"the class is gone":  noClass,
		"the region differs": func(in *workspace.Input) { in.Workspace.Spec.Region, in.Class.Spec.Region = "here", "there" },
		"no slot":            waiting,
	} {
		t.Run(name, func(t *testing.T) {
			running := given(bound(binding("cache"), binding("pg")), settled)
			if plan := workspace.Make(then(running, obstacle)); len(plan.Apply) > 0 {
				t.Errorf("%d writes although every claim stands", len(plan.Apply))
			}
			if plan := workspace.Make(then(running, obstacle, bound(binding("cache", rotated), binding("pg")))); len(plan.Apply) > 0 {
				t.Errorf("%d writes for new credentials of a workspace that is to stay as it is", len(plan.Apply))
			}

			in := then(running, obstacle, bound(binding("cache", denied(v1alpha1.ReasonExpired)), binding("pg")))
			for key := range written[*corev1ac.SecretApplyConfiguration](t, in).Data {
				if strings.Contains(key, "CACHE") {
					t.Errorf("the Secret still has %s", key)
				}
			}
			deployment := written[*appsv1ac.DeploymentApplyConfiguration](t, in)
			count := 0
			for _, env := range deployment.Spec.Template.Spec.Containers[0].Env {
				if strings.Contains(*env.Name, "CACHE") {
					t.Errorf("the Deployment still has %s", *env.Name)
				}
				count++
			}
			before := running.Children.Deployment.Ours
			if was := len(before.Spec.Template.Spec.Containers[0].Env); count != was-7 {
				t.Errorf("of %d variables %d are left, want 7 less: the cache's own", was, count)
			}
			deployment.Spec.Template.Spec.Containers[0].Env = before.Spec.Template.Spec.Containers[0].Env
			if !equality.Semantic.DeepEqual(deployment, before) {
				t.Errorf("more than the variables has changed:\n%v\n%v", deployment, before)
			}

			settle(&in)
			if plan := workspace.Make(in); len(plan.Apply) > 0 {
				t.Errorf("%d writes after that", len(plan.Apply))
			}
		})
	}
}
