// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// kinds are the names that share a kind of Kubernetes, and so must differ.
var kinds = map[string][]func(string) string{
	"label":         {Label},
	"Deployment":    {Deployment}, // and HorizontalPodAutoscaler, PodDisruptionBudget, HTTPScaledObject
	"Service":       {Deployment, Pods},
	"ConfigMap":     {ConfigMap},
	"EndpointSlice": {Activator},
	"Secret":        {Credentials, Datastore, Claim},
}

// apart adds the names, and what is made of them, to those seen, and says what is wrong with them.
func apart(t *testing.T, seen map[string]string, name string) {
	t.Helper()
	if seen[name] != "" {
		return
	}
	seen[name] = name
	for kind, functions := range kinds {
		for i, function := range functions {
			made, by := function(name), fmt.Sprintf("%d of %s", i, name)
			if other, taken := seen[kind+"/"+made]; taken && other != by {
				t.Errorf("%s %q serves both %q and %q", kind, made, by, other)
			}
			seen[kind+"/"+made] = by
			valid := validation.IsDNS1123Subdomain
			switch kind {
			case "label":
				valid = validation.IsValidLabelValue
			case "Service", "Deployment":
				valid = validation.IsDNS1035Label
			}
			if problems := valid(made); len(problems) > 0 {
				t.Errorf("%s of %q: %q: %v", kind, name, made, problems)
			}
		}
	}
}

// forms are names that somebody may choose to get what belongs to another.
func forms(name string) []string {
	all := []string{name, strings.ReplaceAll(name, ".", "-"), strings.ReplaceAll(name, "-", ".")}
	for _, suffix := range []string{"-pods", "-config", "-db-credentials", "-activator", ".pods", "-" + hash(name), "-1700000000"} {
		all = append(all, name+suffix, strings.TrimSuffix(name, suffix))
	}
	for _, functions := range kinds {
		for _, function := range functions {
			made := function(name)
			all = append(all, made, strings.TrimPrefix(made, prefix), strings.TrimSuffix(strings.TrimPrefix(made, prefix), podsSuffix))
		}
	}
	return slices.DeleteFunc(all, func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 })
}

func TestNamesAreValidAndApart(t *testing.T) {
	long := strings.Repeat("a", 60)
	workspaces := []string{
		"w", "pods", "config", "bank-mandiri-prod", "1-starts-with-a-digit", "a.b", "a-b", "a.b.c", "a-b.c", "a.b-c",
		strings.Repeat("w.", 126) + "w", long + "-one", long + "-two", long + ".one", strings.Repeat("x", 33) + strings.Repeat("-", 20) + "y",
		"a-rather-long-name-of-a-shop.example-company.com", "a-rather-long-name-of-a-shop-example-company-com-5ac5f631b1",
		"shop", "shop-pods", "shop-pods-pods", "shop.pods", "shop-config", "shop-db-credentials", "shop-activator",
	}
	for _, length := range []int{35, 40, 41, 45, 46, 52, 53, 63, 64, 253} {
		workspaces = append(workspaces, strings.Repeat("w", length), strings.Repeat("w", length-2)+".w")
	}
	seen := map[string]string{}
	for _, w := range workspaces {
		for _, form := range forms(w) {
			for _, deeper := range forms(form) {
				apart(t, seen, deeper)
			}
		}
	}
}

func TestRandomNamesAreValidAndApart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]string{}
	for range 200 {
		length := []int{1, 2, 3, 45, 52, 63, 64, 253}[random.IntN(8)]
		name := make([]byte, length)
		for i := range name {
			name[i] = "ab0-."[random.IntN(5)]
		}
		for _, form := range forms(string(name)) { // without those that are no names
			apart(t, seen, form)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("shop", "shop-pods")
	f.Add("a-rather-long-name-of-a-shop.example-company.com", "a-rather-long-name-of-a-shop-example-company-com-5ac5f631b1")
	f.Fuzz(func(t *testing.T, a, b string) {
		seen := map[string]string{}
		for _, form := range append(forms(a), forms(b)...) {
			apart(t, seen, form)
		}
	})
}

func TestAHashHasALetter(t *testing.T) {
	found := 0
	for i := range 2000 {
		name := strconv.Itoa(i)
		got, sum := hash(name), sha256.Sum256([]byte(name))
		plain := hex.EncodeToString(sum[:])[:hashChars]
		if !strings.ContainsAny(got, letters) || len(got) != hashChars || !looksHashed("w-"+got) {
			t.Errorf("the hash of %q is %q", name, got)
		}
		if strings.ContainsAny(plain, letters) != (got == plain) {
			t.Errorf("the hash of %q is %q, want the beginning of its sum, %q, if that has a letter", name, got, plain)
		}
		if got != plain {
			found++
		}
	}
	if found == 0 {
		t.Error("no sum begins with ten digits: nothing was tested")
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
		Label("shop-pods"):                          "shop-pods",
		Deployment("order-1700000000"):              "formspec-resource-order-1700000000",
		Pods("shop-pods"):                           "formspec-resource-shop-pods-" + hash("shop-pods") + "-pods",
		Deployment("shop-pods"):                     "formspec-resource-shop-pods-" + hash("shop-pods"),
		Deployment("w-5ac5f631b1"):                  "formspec-resource-w-5ac5f631b1-" + hash("w-5ac5f631b1"),
		Deployment("w-config"):                      "formspec-resource-w-config",
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
