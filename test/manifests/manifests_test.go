// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests checks what manifests/ promises: kubectl and kustomize take the same files, nobody gets more rights than the
// files say they do, and the samples are what the API server accepts.
package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

const dir = "../../manifests"

// glob returns the files that match a pattern below dir, at least one.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	return files
}

// read decodes a file's objects and fails on a field that their kind does not have.
func read(t *testing.T, path string) []runtime.Object {
	t.Helper()
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.Install} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		objects = append(objects, object)
	}
}

// roles returns the rules of a file's roles by kind and name.
func roles(t *testing.T, file string) map[string][]rbacv1.PolicyRule {
	t.Helper()
	found := map[string][]rbacv1.PolicyRule{}
	for _, object := range read(t, filepath.Join(dir, file)) {
		switch role := object.(type) {
		case *rbacv1.ClusterRole:
			found["ClusterRole "+role.Name] = role.Rules
			if role.AggregationRule != nil {
				t.Errorf("%s is aggregated from other roles", role.Name)
			}
			for label := range role.Labels {
				if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") {
					t.Errorf("%s is aggregated into a built-in role: %s", role.Name, label)
				}
			}
		case *rbacv1.Role:
			found["Role "+role.Name] = role.Rules
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has no roles", file)
	}
	return found
}

// kubectl takes the .yaml files, kustomize those that the Kustomization lists.
func TestKubectlAndKustomizeTakeTheSameFiles(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(dir, "Kustomization"))
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct{ Resources []string }
	if err := utilyaml.Unmarshal(content, &kustomization); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
		matches, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range matches {
			files = append(files, filepath.Base(match))
		}
	}
	if !slices.Equal(files, kustomization.Resources) {
		t.Errorf("files %v, Kustomization %v", files, kustomization.Resources)
	}
}

func TestManifestsHaveNoUnknownField(t *testing.T) {
	for _, file := range slices.Concat(glob(t, "[0-9]*.yaml"), glob(t, "samples/*.yaml"), glob(t, "overlays/*/rbac.yaml")) {
		if filepath.Base(file) == "10-crds.yaml" {
			continue // generated, and of a type that is not among our dependencies
		}
		if len(read(t, file)) == 0 {
			t.Errorf("%s is empty", file)
		}
	}
}

func TestRolesHaveNoWildcard(t *testing.T) {
	for _, file := range []string{"20-rbac.yaml", "30-user-roles.yaml", "50-activator.yaml", "overlays/namespaced/rbac.yaml"} {
		for name, rules := range roles(t, file) {
			for _, rule := range rules {
				for _, value := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames, rule.NonResourceURLs) {
					if strings.Contains(value, "*") {
						t.Errorf("%s, %s: wildcard in %v", file, name, rule)
					}
				}
			}
		}
	}
}

// An operator that is bound in chosen namespaces only still tells about classes, which it can in the namespace "default" alone.
func TestTheNamespacedOverlayLetsTheOperatorTellAboutClasses(t *testing.T) {
	for _, object := range read(t, filepath.Join(dir, "overlays/namespaced/rbac.yaml")) {
		role, ok := object.(*rbacv1.Role)
		if !ok || role.Namespace != "default" {
			continue
		}
		want := []rbacv1.PolicyRule{{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}}
		if !reflect.DeepEqual(role.Rules, want) {
			t.Errorf("in the namespace default it may %v, want %v", role.Rules, want)
		}
		return
	}
	t.Error("there is no Role in the namespace default")
}

func TestOperatorCannotDeleteSecrets(t *testing.T) {
	for name, rules := range roles(t, "20-rbac.yaml") {
		for _, rule := range rules {
			if slices.Contains(rule.Resources, "secrets") && (slices.Contains(rule.Verbs, "delete") || slices.Contains(rule.Verbs, "update")) {
				t.Errorf("%s: %v", name, rule)
			}
		}
	}
}

// What the operator may do in namespaces other than its own is bound per namespace where it is limited to some.
func TestOperatorNeedsLittleInTheWholeCluster(t *testing.T) {
	found := roles(t, "20-rbac.yaml")
	want := []string{"clusterclasses", "clusterclasses/status", "nodes"}
	for _, rule := range found["ClusterRole formspec-operator-cluster"] {
		for _, resource := range rule.Resources {
			if !slices.Contains(want, resource) {
				t.Errorf("a right that every installation has in every namespace: %v", rule)
			}
		}
	}
	for _, rule := range found["Role formspec-operator"] {
		secrets := slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"create"})
		if secrets && !slices.Equal(rule.ResourceNames, []string{"formspec-operator-identity"}) {
			t.Errorf("Role formspec-operator: %v", rule)
		}
	}
}

// The status is what the operator has found out, and the operator's own rights are nobody else's.
func TestUsersWriteSpecsOnly(t *testing.T) {
	want := map[string][]string{
		"ClusterRole formspec-viewer":   {"clusterclasses", "workspaces", "datastores", "resourceclaims"},
		"ClusterRole formspec-tenant":   {"workspaces"},
		"ClusterRole formspec-owner":    {"clusterclasses", "datastores", "resourceclaims"},
		"Role formspec-owner-key-admin": {"configmaps"},
	}
	found := roles(t, "30-user-roles.yaml")
	if len(found) != len(want) {
		t.Errorf("there are %d roles, not %d", len(found), len(want))
	}
	for name, resources := range want {
		rules := found[name]
		if len(rules) != 1 || !slices.Equal(rules[0].Resources, resources) {
			t.Errorf("%s: %v, want %v", name, rules, resources)
		}
	}
}

// The owners' keys are what people enter. A ConfigMap in the manifests, even an empty one, would be theirs to lose.
func TestManifestsNeverTouchTheOwnersKeys(t *testing.T) {
	for _, file := range glob(t, "[0-9]*.yaml") {
		if filepath.Base(file) == "10-crds.yaml" {
			continue
		}
		for _, object := range read(t, file) {
			if config, is := object.(*corev1.ConfigMap); is {
				t.Errorf("%s has the ConfigMap %s", file, config.Name)
			}
		}
	}
}

func TestOperatorImageIsPinned(t *testing.T) {
	for _, object := range read(t, filepath.Join(dir, "40-deployment.yaml")) {
		deployment, ok := object.(*appsv1.Deployment)
		if !ok {
			continue
		}
		image := deployment.Spec.Template.Spec.Containers[0].Image
		name, tag, _ := strings.Cut(image, ":")
		if name != "formahub/formspec-operator" || tag == "" || tag == "latest" {
			t.Errorf("image %s", image)
		}
		return
	}
	t.Error("there is no Deployment")
}
