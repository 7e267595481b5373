// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNamesAreValidAndApart(t *testing.T) {
	long := strings.Repeat("a", 60)
	workspaces := []string{
		"w", "bank-mandiri-prod", "1-starts-with-a-digit", "a.b", "a-b", "a.b.c", "a-b.c", "a.b-c",
		strings.Repeat("w", 45), strings.Repeat("w", 46), strings.Repeat("w", 52), strings.Repeat("w", 63), strings.Repeat("w", 64),
		strings.Repeat("w", 253), strings.Repeat("w.", 126) + "w", long + "-one", long + "-two",
		strings.Repeat("x", 33) + strings.Repeat("-", 20) + "y",
	}
	seen := map[string]string{}
	for _, w := range workspaces {
		for kind, name := range map[string]string{"label": Label(w), "deployment": Deployment(w), "configmap": ConfigMap(w), "secret": Credentials(w), "pods": Pods(w)} {
			if other, taken := seen[kind+"/"+name]; taken {
				t.Errorf("%s %q serves both %q and %q", kind, name, w, other)
			}
			seen[kind+"/"+name] = w
		}
		if problems := validation.IsValidLabelValue(Label(w)); len(problems) > 0 {
			t.Errorf("label of %q: %q: %v", w, Label(w), problems)
		}
		if problems := validation.IsDNS1035Label(Deployment(w)); len(problems) > 0 {
			t.Errorf("name of the Service of %q: %q: %v", w, Deployment(w), problems)
		}
		if problems := validation.IsDNS1035Label(Pods(w)); len(problems) > 0 {
			t.Errorf("name of the headless Service of %q: %q: %v", w, Pods(w), problems)
		}
		for _, name := range []string{ConfigMap(w), Credentials(w)} {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				t.Errorf("name for %q: %q: %v", w, name, problems)
			}
		}
	}
}

func TestNamesOfTheContract(t *testing.T) {
	for got, want := range map[string]string{
		Deployment("bank-mandiri-prod"):             "formspec-resource-bank-mandiri-prod",
		ConfigMap("bank-mandiri-prod"):              "formspec-resource-bank-mandiri-prod-config",
		Credentials("bank-mandiri-prod"):            "formspec-resource-bank-mandiri-prod-db-credentials",
		Pods("bank-mandiri-prod"):                   "formspec-resource-bank-mandiri-prod-pods",
		Label("bank-mandiri-prod"):                  "bank-mandiri-prod",
		Deployment(strings.Repeat("w", 45)):         "formspec-resource-" + strings.Repeat("w", 45),
		Label("a.b"):                                "a-b-" + "2e7336dc8e",
		Deployment("a.b")[:len(prefix)+len("a-b-")]: "formspec-resource-a-b-",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTheActivatorsSliceFitsAnyWorkspace(t *testing.T) {
	for _, w := range []string{"w", "a.b", strings.Repeat("w", 253)} {
		if problems := validation.IsDNS1123Subdomain(Activator(w)); len(problems) > 0 || Activator(w) == Deployment(w) {
			t.Errorf("name for %q: %q: %v", w, Activator(w), problems)
		}
	}
}
