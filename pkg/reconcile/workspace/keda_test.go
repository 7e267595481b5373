// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/hosts"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// withKEDA is a class that scales to zero, in a cluster with KEDA.
var withKEDA = both(scaleToZero, mode(workspace.ModeKEDA), settings(func(s *workspace.Settings) { s.KEDAInstalled = true }))

func scaledObject(in workspace.Input) *keda.HTTPScaledObject {
	for _, write := range workspace.Make(in).Apply {
		if o, is := write.Config.(*keda.HTTPScaledObject); is {
			return o
		}
	}
	return nil
}

func kedaSchema(t *testing.T) *openapi.Schema {
	t.Helper()
	text, err := os.ReadFile("../keda/testdata/http.keda.sh_httpscaledobjects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema *openapi.Schema }
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// unknown are the fields that a schema does not have, which an API server drops.
func unknown(path string, value any, schema openapi.Schema) []string {
	var found []string
	object, isObject := value.(map[string]any)
	if !isObject || len(schema.Properties) == 0 {
		return nil
	}
	for name, inner := range object {
		property, has := schema.Properties[name]
		if !has {
			found = append(found, path+"."+name)
			continue
		}
		found = append(found, unknown(path+"."+name, inner, property)...)
	}
	return found
}

func TestTheHTTPScaledObjectFitsItsSchema(t *testing.T) {
	schema := kedaSchema(t)
	for name, in := range map[string]workspace.Input{
		"a small class":   given(withKEDA),
		"with everything": given(withKEDA, autoScaling, minimum(2), keepAwake("2026-07-10T10:30:00Z"), claims("shop.example.com")),
	} {
		t.Run(name, func(t *testing.T) {
			object := fields(asJSON(scaledObject(in)))
			if result := validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(object); !result.IsValid() {
				t.Errorf("%v", result.Errors)
			}
			if extra := unknown("", object, *schema); len(extra) > 0 {
				t.Errorf("the schema does not know %v", extra)
			}
		})
	}
	broken := given(withKEDA)
	object := fields(asJSON(scaledObject(broken)))
	object["spec"].(map[string]any)["scaledownPeriod"], object["spec"].(map[string]any)["cooldown"] = "5m", 1
	if validate.NewSchemaValidator(schema, nil, "", strfmt.Default).Validate(object).IsValid() || len(unknown("", object, *schema)) != 1 {
		t.Error("a mistake is not found, so nothing is proved")
	}
}

func claims(names ...string) option {
	return object(func(ws *v1alpha1.Workspace) { ws.Spec.Hosts = names })
}

func TestWhatKEDAIsTold(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    func(*keda.Spec) bool
	}{
		"nothing special": {nil, func(s *keda.Spec) bool {
			return s.Replicas == keda.Replicas{Min: 0, Max: 1} && s.ScaledownPeriod == 300
		}},
		"a minimum":             {[]option{minimum(3)}, func(s *keda.Spec) bool { return s.Replicas == keda.Replicas{Min: 0, Max: 3} }},
		"auto-scaling":          {[]option{minimum(2), autoScaling}, func(s *keda.Spec) bool { return s.Replicas == keda.Replicas{Min: 0, Max: 5} }},
		"the window":            {[]option{idleAfter(time.Minute)}, func(s *keda.Spec) bool { return s.ScaledownPeriod == 60 }},
		"kept awake":            {[]option{keepAwake("2026-07-10T10:30:00Z")}, func(s *keda.Spec) bool { return s.Replicas.Min == 1 }},
		"kept awake by mistake": {[]option{keepAwake("tomorrow")}, func(s *keda.Spec) bool { return s.Replicas.Min == 1 }},
		"no longer kept awake":  {[]option{keepAwake("2026-07-10T09:30:00Z")}, func(s *keda.Spec) bool { return s.Replicas.Min == 0 }},
		"the name of the Service": {nil, func(s *keda.Spec) bool {
			return slices.Contains(s.Hosts, "formspec-resource-shop.bank.svc.cluster.local")
		}},
		"hosts, but for those of others": {
			[]option{claims("a.example.com", "b.example.com"), func(in *workspace.Input) {
				in.Hosts = []hosts.Refusal{{Host: "b.example.com", Owner: types.NamespacedName{Namespace: "x", Name: "y"}}}
			}},
			func(s *keda.Spec) bool {
				return slices.Contains(s.Hosts, "a.example.com") && !slices.Contains(s.Hosts, "b.example.com")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := scaledObject(given(append([]option{withKEDA}, row.options...)...))
			if o == nil || !row.want(o.Spec) {
				t.Errorf("KEDA is told %s", asJSON(o))
			}
		})
	}
}

// KEDA owns the replica count as an autoscaler does, and all else is as without scaling to zero.
func TestKEDAScales(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    string
	}{
		"a new workspace":              {[]option{withKEDA}, "1 replicas, to scale by KEDA, Unknown RolloutInProgress, ScaledByKEDA"},
		"KEDA has put it to sleep":     {[]option{withKEDA, settled, ready(1), scaled(0), rollout(0, 0, 0)}, "True Asleep, ScaledByKEDA"},
		"KEDA has woken it":            {[]option{withKEDA, settled, ready(1), scaled(0), rollout(0, 0, 0), settled, scaled(1), rollout(1, 1, 0)}, "Unknown Waking, ScaledByKEDA"},
		"KEDA has scaled it up":        {[]option{withKEDA, autoScaling, settled, ready(1), scaled(4), ready(4)}, "True Available, ScaledByKEDA"},
		"something rolls it":           {[]option{withKEDA, autoScaling, settled, ready(1), scaled(4), resources("2", "1Gi")}, "- replicas, Unknown RolloutInProgress, ScaledByKEDA"},
		"without KEDA it stays awake":  {[]option{scaleToZero, mode(workspace.ModeKEDA), settled, ready(1)}, "True Available, KEDANotInstalled"},
		"KEDA is not to scale it more": {[]option{withKEDA, settled, ready(1), scaled(0), rollout(0, 0, 0), settled, mode(workspace.ModeOff)}, "1 replicas, delete HTTPScaledObject, Unknown Waking, ScaleToZeroOff"},
		"its autoscaler goes":          {[]option{scaleToZero, autoScaling, mode(workspace.ModeOff), settled, ready(1), withKEDA}, "to scale by KEDA, delete HorizontalPodAutoscaler, True Available, ScaledByKEDA"},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(row.options...)
			plan := workspace.Make(in)
			var got []string
			for _, write := range plan.Apply {
				switch kind := *write.Config.GetKind(); kind {
				case "Deployment":
					replicas := "-"
					if spec := fields(asJSON(write.Config))["spec"].(map[string]any); spec["replicas"] != nil {
						text, _ := json.Marshal(spec["replicas"])
						replicas = string(text)
					}
					got = append(got, replicas+" replicas")
				case keda.Kind:
					got = append(got, "to scale by KEDA")
				}
			}
			for _, d := range plan.Delete {
				got = append(got, "delete "+d.Kind)
			}
			was := readyCondition(plan.Status)
			got = append(got, string(was.Status)+" "+was.Reason, conditionOf(plan.Status, v1alpha1.ConditionScaleToZeroActive).Reason)
			if have := strings.Join(got, ", "); have != row.want {
				t.Errorf("it does\n%s, want\n%s", have, row.want)
			}
			settled(&in)
		})
	}
}
