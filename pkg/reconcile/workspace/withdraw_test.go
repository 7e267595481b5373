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
			if plan := workspace.Make(then(running, obstacle, noSecret)); len(plan.Apply) > 0 {
				t.Errorf("%d writes for a Secret that somebody deleted: it would roll what runs", len(plan.Apply))
			}
			if plan := workspace.Make(then(given(bound(binding("cache", readOnly)), settled), obstacle, bound(binding("cache")))); len(plan.Apply) > 0 {
				t.Errorf("%d writes for a claim that allows more than it did", len(plan.Apply))
			}
			for change, cache := range map[string]func(*workspace.Binding){"expired": denied(v1alpha1.ReasonExpired), "only to be read": readOnly} {
				t.Run(change, func(t *testing.T) {
					onlyTheCacheIsWithdrawn(t, running, then(running, obstacle, bound(binding("cache", cache), binding("pg"))))
				})
			}
		})
	}
}

func onlyTheCacheIsWithdrawn(t *testing.T, running, in workspace.Input) {
	t.Helper()
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
}

func noSecret(in *workspace.Input) { in.Children.Credentials = workspace.Secret{} }

// The Secret comes first, and what goes from it is never referred to again, whatever became of the second write.
func TestVariablesGoWithTheKeysThatAreGone(t *testing.T) {
	in := then(given(bound(binding("cache"), binding("pg")), settled), waiting, bound(binding("cache", readOnly), binding("pg")))
	plan := workspace.Make(in)
	plan.Apply = plan.Apply[:1]
	execute(&in, plan)
	for _, env := range written[*appsv1ac.DeploymentApplyConfiguration](t, in).Spec.Template.Spec.Containers[0].Env {
		if strings.Contains(*env.Name, "CACHE") {
			t.Errorf("the Deployment still has %s", *env.Name)
		}
	}
}
