// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"slices"
	"strings"
	"testing"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// refusedTo is a refusal of the write of a child, by the end of its name.
func refusedTo(kind, suffix string) option {
	return func(in *workspace.Input) {
		refused(reconcile.Refused("a write is refused", "denied by policy"))(in)
		in.Refused = append(in.Refused, workspace.Refused{Kind: kind, Name: "formspec-resource-shop" + suffix})
	}
}

var (
	secretRefused     = refusedTo("Secret", "-db-credentials")
	configMapRefused  = refusedTo("ConfigMap", "-config")
	deploymentRefused = refusedTo("Deployment", "")
)

func hasVariables(deployment *appsv1ac.DeploymentApplyConfiguration, datastore string) bool {
	return slices.ContainsFunc(deployment.Spec.Template.Spec.Containers[0].Env, func(env corev1ac.EnvVarApplyConfiguration) bool {
		return strings.Contains(*env.Name, "_DATASTORE_"+datastore+"_")
	})
}

// The Deployment never refers to a key that the Secret does not have, and never to one that no claim allows.
func TestTheSecretIsRefused(t *testing.T) {
	running := given(bound(binding("cache"), binding("pg")), settled)
	before := running.Children.Deployment.Ours
	for name, row := range map[string]struct {
		bindings   []workspace.Binding
		cache, pg  bool // stay
		everything bool
	}{
		"a claim is gone":          {[]workspace.Binding{binding("pg")}, false, true, false},
		"a claim allows less":      {[]workspace.Binding{binding("cache", readOnly), binding("pg")}, false, true, false},
		"another is new":           {[]workspace.Binding{binding("cache"), binding("new"), binding("pg")}, true, true, true},
		"its credentials are new":  {[]workspace.Binding{binding("cache", rotated), binding("pg")}, true, true, true},
		"one is gone, another new": {[]workspace.Binding{binding("new"), binding("pg")}, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := then(running, bound(row.bindings...), secretRefused)
			plan := workspace.Make(in)
			if row.everything {
				if len(plan.Apply) > 0 {
					t.Errorf("%q are written although nothing is to be taken back", writes(plan))
				}
				return
			}
			data := written[*corev1ac.SecretApplyConfiguration](t, in).Data
			deployment := written[*appsv1ac.DeploymentApplyConfiguration](t, in)
			if hasVariables(deployment, "CACHE") != row.cache || hasVariables(deployment, "PG") != row.pg || hasVariables(deployment, "NEW") {
				t.Errorf("the variables are %v", deployment.Spec.Template.Spec.Containers[0].Env)
			}
			if data["FORMSPEC_DATASTORE_CACHE_DSN"] != nil || data["FORMSPEC_DATASTORE_NEW_DSN"] != nil || data["FORMSPEC_DATASTORE_PG_DSN"] == nil {
				t.Errorf("the Secret has %v", data)
			}
			if got, want := deployment.Spec.Template.Annotations[v1alpha1.AnnotationCredentials], before.Spec.Template.Annotations[v1alpha1.AnnotationCredentials]; got != want {
				t.Errorf("the pods have revision %q and the Secret that is refused %q", got, want)
			}
		})
	}
}

// What may be started without the refused child is, and what may not is not.
func TestWhatDependsOnARefusedChild(t *testing.T) {
	newImage := class(func(c *v1alpha1.ClusterClass) { c.Spec.ResourceImage = "example.com/app:2" })
	sleeping := both(scaleToZero, settled, ready(1), idle, settled)
	for name, row := range map[string]struct {
		options []option
		want    []string
	}{
		"no first pods without credentials":   {[]option{bound(binding("pg")), secretRefused}, []string{"ConfigMap if the name is free", "Service if the name is free"}},
		"no first pods without configuration": {[]option{configMapRefused}, []string{"Secret if the name is free", "ConfigMap if the name is free", "Service if the name is free"}},
		"a rollout needs neither to be new":   {[]option{settled, newImage, secretRefused, configMapRefused}, []string{"Deployment if uid-of-Deployment"}},
		"one that sleeps wakes":               {[]option{sleeping, busy, secretRefused, configMapRefused}, []string{"Deployment if uid-of-Deployment"}},
		"pods that run outlast a lost Secret": {[]option{bound(binding("pg")), settled, noSecret, newImage, secretRefused}, nil},
		"the scale stays with the Deployment": {[]option{settled, newImage, autoScaling, deploymentRefused}, []string{"ConfigMap if uid-of-ConfigMap"}},
		"no way by an activator without pods": {[]option{settled, scaleToZero, refusedTo("Service", "-pods")}, []string{"Service if the name is free", "Deployment if uid-of-Deployment"}},
		"no Service that leads nowhere":       {[]option{settled, scaleToZero, refusedTo("EndpointSlice", "-activator")}, []string{"Service if the name is free", "EndpointSlice if the name is free", "Deployment if uid-of-Deployment"}},
		"no sleep that nobody could end":      {[]option{scaleToZero, settled, ready(1), settled, noPodsService, idle, refusedTo("Service", "-pods")}, []string{"Service if the name is free"}},
		"nothing at all under another's name": {[]option{settled, newImage, refused(reconcile.NameConflict("Service", "x"))}, nil},
		"nothing without a finalizer": {[]option{func(in *workspace.Input) {
			in.Refused = append(in.Refused, workspace.Refused{Kind: "Workspace", Name: "shop"})
		}, refused(reconcile.Refused("a", "b"))}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(row.options...)
			if got := writes(workspace.Make(in)); !slices.Equal(got, row.want) {
				t.Errorf("the writes are\n%q, want\n%q", got, row.want)
			}
		})
	}
}

func TestAnImmutableSecretIsTold(t *testing.T) {
	in := given(bound(binding("pg")), settled, ready(1), bound(), secretRefused)
	in.Children.Credentials.Live = in.Children.Credentials.Live.DeepCopy()
	in.Children.Credentials.Live.Immutable = new(true)
	got := readyCondition(workspace.Make(in).Status)
	if got.Reason != v1alpha1.ReasonRefused || !strings.Contains(got.Message, "kubectl delete secret formspec-resource-shop-db-credentials -n bank") {
		t.Errorf("Ready says %s: %s; want what to do about an immutable Secret", got.Reason, got.Message)
	}
}

func noPodsService(in *workspace.Input) { in.Children.PodsService = workspace.Service{} }

// The way by the activator stays until the other one is there.
func TestAServiceThatIsRefusedItsSelectorKeepsTheActivator(t *testing.T) {
	in := given(scaleToZero, settled, ready(1), settled, noScaleToZero, theirs(true), refusedTo("Service", ""))
	if plan := workspace.Make(in); slices.ContainsFunc(plan.Delete, func(r reconcile.Reference) bool { return r.Kind == "EndpointSlice" }) {
		t.Errorf("%v are deleted", plan.Delete)
	}
}
