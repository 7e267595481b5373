// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Who may do what: the roles of manifests/, given as their comment says, and asked of the API server.
func TestUserRoles(t *testing.T) {
	t.Parallel()
	s := given(t)
	_, err := s.cluster.kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(root, "manifests/30-user-roles.yaml"))
	s.must("apply the roles", err)
	user := func(role string) string { return s.namespace + "-" + role }
	s.grant("RoleBinding", s.namespace, "ClusterRole", "formspec-viewer", user("viewer"))
	s.grant("ClusterRoleBinding", "", "ClusterRole", "formspec-viewer", user("auditor"))
	s.grant("RoleBinding", s.namespace, "ClusterRole", "formspec-tenant", user("tenant"))
	s.grant("ClusterRoleBinding", "", "ClusterRole", "formspec-owner", user("owner"))
	s.grant("RoleBinding", s.namespace, "ClusterRole", "formspec-owner", user("landlord"))
	s.grant("RoleBinding", "formspec-system", "Role", "formspec-owner-key-admin", user("keys"))
	s.grant("RoleBinding", s.namespace, "ClusterRole", "edit", user("editor"))
	s.grant("RoleBinding", s.namespace, "ClusterRole", "view", user("reader"))

	read := []string{"get", "list", "watch"}
	write := []string{"create", "update", "patch", "delete", "deletecollection"}
	both := slices.Concat(read, write)
	const (
		classes    = "clusterclasses.formspec.dev"
		workspaces = "workspaces.formspec.dev"
		datastores = "datastores.formspec.dev"
		claims     = "resourceclaims.formspec.dev"
		here       = "HERE"
		elsewhere  = "default"
		operators  = "formspec-system"
		everywhere = ""
	)
	for _, row := range []struct {
		user, namespace, resource string
		may                       []string
	}{
		{"viewer", here, workspaces, read},
		{"viewer", here, datastores, read},
		{"viewer", here, claims, read},
		{"viewer", everywhere, classes, nil}, // a RoleBinding gives nothing that has no namespace
		{"viewer", elsewhere, workspaces, nil},
		{"viewer", here, "secrets", nil},
		{"viewer", here, "configmaps", nil},
		{"auditor", everywhere, classes, read},
		{"auditor", elsewhere, workspaces, read},
		{"auditor", elsewhere, claims, read},
		{"tenant", here, workspaces, both},
		{"tenant", here, workspaces + "/status", nil},
		{"tenant", here, workspaces + "/finalizers", nil},
		{"tenant", here, datastores, nil},
		{"tenant", here, claims, nil},
		{"tenant", everywhere, classes, nil},
		{"tenant", elsewhere, workspaces, nil},
		{"tenant", here, "secrets", nil},
		{"tenant", here, "deployments.apps", nil},
		{"tenant", here, "pods", nil},
		{"owner", everywhere, classes, both},
		{"owner", everywhere, classes + "/status", nil},
		{"owner", elsewhere, datastores, both},
		{"owner", here, claims, both},
		{"owner", here, datastores + "/status", nil},
		{"owner", here, workspaces, nil},
		{"owner", here, "secrets", nil},
		{"owner", operators, "configmaps", nil},
		{"landlord", here, datastores, both},
		{"landlord", here, claims, both},
		{"landlord", elsewhere, datastores, nil},
		{"landlord", everywhere, classes, nil},
		{"keys", operators, "configmaps/formspec-owner-keys", []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		{"keys", operators, "configmaps/another", nil},
		{"keys", operators, "secrets/formspec-operator-identity", nil},
		{"keys", here, "configmaps/formspec-owner-keys", nil},
		{"keys", here, workspaces, nil},
		{"editor", here, workspaces, nil}, // nothing is aggregated
		{"editor", here, datastores, nil},
		{"reader", here, workspaces, nil},
	} {
		namespace := strings.ReplaceAll(row.namespace, here, s.namespace)
		for _, verb := range both {
			want := slices.Contains(row.may, verb)
			if have := s.may(user(row.user), verb, namespace, row.resource); have != want {
				t.Errorf("that the %s may %s %s in namespace %q is %v, want %v", row.user, verb, row.resource, namespace, have, want)
			}
		}
	}

	// The same as people would do it.
	for _, row := range []struct {
		user string
		args []string
		want string
	}{
		{"tenant", []string{"auth", "can-i", "create", workspaces}, "yes"},
		{"tenant", []string{"auth", "can-i", "create", datastores}, "no"},
		{"tenant", []string{"auth", "can-i", "get", "secrets"}, "no"},
		{"owner", []string{"auth", "can-i", "delete", classes}, "yes"},
		{"viewer", []string{"auth", "can-i", "delete", workspaces}, "no"},
	} {
		out, err := s.cluster.kubectl(t.Context(), append(row.args, "-n", s.namespace, "--as="+user(row.user))...)
		if have := strings.TrimSpace(out); have != row.want || (err == nil) != (row.want == "yes") {
			t.Errorf("kubectl %s as the %s: %q, want %q", strings.Join(row.args, " "), row.user, have, row.want)
		}
	}
	class := s.class()
	manifest := fmt.Sprintf(`{"apiVersion":"formspec.dev/v1alpha1","kind":"Workspace","metadata":{"name":"shop"},"spec":{"clusterClass":%q}}`, class.Name)
	if _, err := s.cluster.kubectlWith(t.Context(), manifest, "-n", s.namespace, "--as="+user("tenant"), "apply", "-f", "-"); err != nil {
		t.Errorf("the tenant cannot create a Workspace: %v", err)
	}
	(&tenant{scenario: s, name: "shop"}).ready()
	if out, err := s.cluster.kubectl(t.Context(), "-n", s.namespace, "--as="+user("viewer"), "get", "workspace", "shop"); err != nil || !strings.Contains(out, "True") {
		t.Errorf("the viewer sees %q (%v)", out, err)
	}
	if _, err := s.cluster.kubectl(t.Context(), "-n", s.namespace, "--as="+user("viewer"), "delete", "workspace", "shop"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("the viewer deletes a Workspace: %v", err)
	}
}

// grant binds a role to a user until the test ends.
func (s *scenario) grant(kind, namespace, roleKind, role, user string) {
	s.Helper()
	meta := metav1.ObjectMeta{Name: user, Namespace: namespace}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: roleKind, Name: role}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	var err error
	if kind == "ClusterRoleBinding" {
		_, err = s.kube.RbacV1().ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		s.Cleanup(func() {
			_ = s.kube.RbacV1().ClusterRoleBindings().Delete(contextBeyond(s), user, metav1.DeleteOptions{})
		})
	} else {
		_, err = s.kube.RbacV1().RoleBindings(namespace).Create(s.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		s.Cleanup(func() {
			_ = s.kube.RbacV1().RoleBindings(namespace).Delete(contextBeyond(s), user, metav1.DeleteOptions{})
		})
	}
	s.must("bind the role", err)
}

// may is what "kubectl auth can-i --as" asks. A resource is resource.group, with a subresource behind a slash, or a name behind one if it is
// of no group.
func (s *scenario) may(user, verb, namespace, resource string) bool {
	s.Helper()
	attributes := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Version: "*"}
	resource, rest, _ := strings.Cut(resource, "/")
	attributes.Resource, attributes.Group, _ = strings.Cut(resource, ".")
	if attributes.Group == "" {
		attributes.Name = rest
	} else {
		attributes.Subresource = rest
	}
	review, err := s.kube.AuthorizationV1().SubjectAccessReviews().Create(s.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	s.must("ask who may", err)
	return review.Status.Allowed
}
