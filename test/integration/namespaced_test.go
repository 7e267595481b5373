// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The overlay for chosen namespaces gives what the operator needs there, and Events about classes, which have no namespace.
func TestRightsOfTheNamespacedOverlay(t *testing.T) {
	t.Parallel()
	s := given(t)
	user := s.namespace + "-operator"
	rbac, err := os.ReadFile(filepath.Join(root, "manifests/overlays/namespaced/rbac.yaml"))
	s.must("read the overlay", err)
	manifest := strings.NewReplacer(
		"tenant-a", s.namespace,
		"- kind: ServiceAccount\n    name: formspec-operator\n    namespace: formspec-system", "- kind: User\n    apiGroup: rbac.authorization.k8s.io\n    name: "+user,
	).Replace(string(rbac))
	file := s.write("rbac.yaml", manifest)
	_, err = s.cluster.kubectl(t.Context(), "apply", "--server-side", "-f", file)
	s.must("apply the overlay", err)
	t.Cleanup(func() {
		_, err := s.cluster.kubectl(contextBeyond(t), "delete", "--ignore-not-found", "-f", file)
		s.must("delete the overlay", err)
	})
	s.grant("ClusterRoleBinding", "", "ClusterRole", "formspec-operator-cluster", user)
	s.grant("RoleBinding", systemNamespace, "Role", "formspec-operator", user)

	const (
		events    = "events.events.k8s.io"
		here      = "HERE"
		elsewhere = "kube-system"
	)
	for _, row := range []struct {
		namespace, resource string
		may                 []string
	}{
		{here, "workspaces.formspec.dev", []string{"get", "list", "watch", "patch"}},
		{here, "deployments.apps", []string{"get", "list", "watch", "create", "patch", "delete"}},
		{here, "secrets", []string{"get", "list", "watch", "create", "patch"}},
		{here, events, []string{"create", "patch"}},
		{"default", events, []string{"create", "patch"}},
		{"default", "workspaces.formspec.dev", nil},
		{"default", "secrets", nil},
		{"", "clusterclasses.formspec.dev", []string{"get", "list", "watch", "patch"}},
		// RBAC cannot check the name of what is created.
		{systemNamespace, "configmaps/formspec-owner-keys", []string{"get", "list", "watch", "create"}},
		{elsewhere, events, nil},
		{elsewhere, "workspaces.formspec.dev", nil},
		{elsewhere, "secrets", nil},
	} {
		namespace := strings.ReplaceAll(row.namespace, here, s.namespace)
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			want := slices.Contains(row.may, verb)
			if have := s.may(user, verb, namespace, row.resource); have != want {
				t.Errorf("that the operator may %s %s in namespace %q is %v, want %v", verb, row.resource, namespace, have, want)
			}
		}
	}

	class := s.class()
	tell := func(namespace string) error {
		_, err := s.cluster.kubectlWith(t.Context(), fmt.Sprintf(`{"apiVersion": "events.k8s.io/v1", "kind": "Event",
			"metadata": {"name": %[1]q, "namespace": %[2]q}, "type": "Warning", "reason": "Test", "action": "Test", "note": "about a class",
			"eventTime": "2026-07-10T10:00:00.000000Z", "reportingController": "test", "reportingInstance": "test",
			"regarding": {"apiVersion": "formspec.dev/v1alpha1", "kind": "ClusterClass", "name": %[3]q, "uid": %[4]q}}`,
			s.namespace, namespace, class.Name, class.UID), "--as="+user, "create", "-f", "-")
		return err
	}
	s.must("record an Event about a class", tell("default"))
	t.Cleanup(func() {
		_, _ = s.cluster.kubectl(contextBeyond(t), "delete", "events.events.k8s.io", s.namespace, "-n", "default", "--ignore-not-found")
	})
	if err := tell(s.namespace); err == nil {
		t.Error("the API server takes Events about a class in any namespace: the Role for \"default\" may go")
	}
}
