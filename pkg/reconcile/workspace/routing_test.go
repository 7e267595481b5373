// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// theirs is an EndpointSlice that Kubernetes' own controller made for the Service.
func theirs(ready bool) option {
	return func(in *workspace.Input) {
		in.Children.Theirs = []*discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "formspec-resource-shop-x7k2p", UID: "uid-of-theirs"},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		}}
	}
}

// routing is what a plan does with Services and EndpointSlices, in order.
func routing(plan workspace.Plan) string {
	var all []string
	for _, write := range plan.Apply {
		fields := fields(asJSON(write.Config))
		name := strings.TrimPrefix(*write.Config.GetName(), "formspec-resource-")
		switch *write.Config.GetKind() {
		case "Service":
			_, selects := fields["spec"].(map[string]any)["selector"]
			all = append(all, fmt.Sprintf("Service %s selects=%v", name, selects))
		case "EndpointSlice":
			var addresses []string
			endpoints, _ := fields["endpoints"].([]any)
			for _, e := range endpoints {
				addresses = append(addresses, fmt.Sprint(e.(map[string]any)["addresses"]))
			}
			all = append(all, fmt.Sprintf("slice %s to %s", name, strings.Join(addresses, "")))
		}
	}
	for _, d := range plan.Delete {
		all = append(all, "delete "+d.Kind+" "+strings.TrimPrefix(d.Name, "formspec-resource-"))
	}
	return strings.Join(all, ", ")
}

func TestRouting(t *testing.T) {
	direct := both(settled, ready(1), theirs(true), settled)
	withoutActivators := both(scaleToZero, activators(), settled, ready(1), theirs(true), settled)
	for name, row := range map[string]struct {
		options []option
		want    string
	}{
		"a new workspace that stays awake":     {nil, "Service shop selects=true"},
		"a new one that may sleep":             {[]option{scaleToZero}, "Service shop-pods selects=true, slice shop-activator to [10.0.0.1][10.0.0.2], Service shop selects=false"},
		"a new one, and no activator is ready": {[]option{scaleToZero, activators()}, "Service shop-pods selects=true, Service shop selects=true"},
		"a new one, with scale to zero off":    {[]option{scaleToZero, mode(workspace.ModeOff)}, "Service shop selects=true"},

		// To the activator.
		"the class is switched on: the new way is there before the old one goes": {
			[]option{direct, scaleToZero}, "Service shop-pods selects=true, slice shop-activator to [10.0.0.1][10.0.0.2], Service shop selects=false",
		},
		"and then what is left behind goes": {
			[]option{direct, scaleToZero, planned}, "delete Endpoints shop, delete EndpointSlice shop-x7k2p",
		},
		"and once more if it comes back": {[]option{direct, scaleToZero, settled, theirs(false)}, "delete Endpoints shop, delete EndpointSlice shop-x7k2p"},
		"nothing is left":                {[]option{direct, scaleToZero, settled}, ""},
		"the first activator is ready":   {[]option{withoutActivators, activators("10.0.0.9")}, "slice shop-activator to [10.0.0.9], Service shop selects=false"},

		// Activators come and go.
		"an activator goes":           {[]option{economy, activators("10.0.0.2")}, "slice shop-activator to [10.0.0.2]"},
		"one comes":                   {[]option{economy, activators("10.0.0.1", "10.0.0.2", "10.0.0.3")}, "slice shop-activator to [10.0.0.1][10.0.0.2][10.0.0.3]"},
		"asleep, and all are gone":    {[]option{sleeps, activators()}, "slice shop-activator to "},
		"asleep, and one is back":     {[]option{sleeps, activators(), settled, activators("10.0.0.7")}, "slice shop-activator to [10.0.0.7]"},
		"awake, and all are gone":     {[]option{economy, activators()}, "Service shop selects=true"},
		"and the pods are there":      {[]option{economy, activators(), planned, theirs(true)}, "delete EndpointSlice shop-activator"},
		"and the pods are not":        {[]option{economy, activators(), planned, theirs(false)}, ""},
		"and one is back before that": {[]option{economy, activators(), planned, theirs(false), activators("10.0.0.1", "10.0.0.2")}, "Service shop selects=false"},

		// Back to the pods.
		"the class is switched off: the selector first":     {[]option{economy, noScaleToZero}, "Service shop selects=true"},
		"ours stays until theirs has a ready endpoint":      {[]option{economy, noScaleToZero, planned, theirs(false)}, ""},
		"an activator goes meanwhile":                       {[]option{economy, noScaleToZero, planned, activators("10.0.0.2")}, "slice shop-activator to [10.0.0.2]"},
		"ours goes when theirs is there":                    {[]option{economy, noScaleToZero, planned, theirs(true)}, "delete EndpointSlice shop-activator"},
		"and the headless Service last":                     {[]option{economy, noScaleToZero, planned, theirs(true), planned}, "delete Service shop-pods"},
		"back for good":                                     {[]option{economy, noScaleToZero, planned, theirs(true), settled}, ""},
		"switched off asleep: requests are held until then": {[]option{sleeps, noScaleToZero, planned}, ""},
		"no pod is ready, and nobody is there to hold":      {[]option{sleeps, mode(workspace.ModeOff), activators()}, "Service shop selects=true, delete EndpointSlice shop-activator"},
		"another cluster": {
			[]option{economy, spec(func(s *v1alpha1.WorkspaceSpec) { s.Cluster = "elsewhere" })},
			"delete Deployment shop, delete EndpointSlice shop-activator, delete Service shop, delete Service shop-pods, delete ConfigMap shop-config",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := routing(workspace.Make(given(row.options...))); got != row.want {
				t.Errorf("it does\n%s, want\n%s", got, row.want)
			}
		})
	}
}

// What Kubernetes' own controllers made must not be deleted before they know that the selector is gone; a look soon after finds it.
func TestTheCleanUpComesInASecondStep(t *testing.T) {
	in := given(settled, ready(1), theirs(true), settled, scaleToZero)
	if plan := workspace.Make(in); plan.After == 0 || plan.After > time.Second {
		t.Errorf("looks again in %s, want a second", plan.After)
	}
	in = then(in, settled)
	if plan := workspace.Make(in); len(in.Children.Theirs) != 0 || plan.After != 5*time.Minute {
		t.Errorf("looks again in %s with %d slices left, want the window", plan.After, len(in.Children.Theirs))
	}
}

func TestEachWorkspaceHasAFewActivators(t *testing.T) {
	var addresses []string
	for i := range 20 {
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d", i+10))
	}
	in := given(scaleToZero, activators(addresses...), settled)
	var mine []string
	for _, e := range in.Children.Slice.Live.Endpoints {
		mine = append(mine, e.Addresses...)
	}
	if len(mine) != 3 {
		t.Fatalf("it has %v, want 3", mine)
	}
	others := slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a != addresses[0] && !slices.Contains(mine, a) && a != addresses[1] })
	slices.Sort(others)
	if got := routing(workspace.Make(then(in, activators(others...)))); got != "" {
		t.Errorf("others went, and its slice is written: %s", got)
	}
}
