// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// atRest is how long nothing may happen.
func atRest() time.Duration {
	if long() {
		return 10 * time.Minute
	}
	return 5 * time.Second
}

// mutate lets a policy change what is written to a resource in the namespace. The expression makes the change, with "object" at hand.
func (s *scenario) mutate(group, version, resource, patchType, field, expression, probe, sign string) {
	s.Helper()
	s.policy(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [%q], apiVersions: [%q], operations: [CREATE, UPDATE], resources: [%q]}
  mutations:
  - patchType: %s
    %s:
      expression: >-
        %s
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec:
  policyName: NAMESPACE
  matchResources:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
`, group, version, resource, patchType, field, expression), "mutatingadmissionpolicy,mutatingadmissionpolicybinding",
		probe, func(out string, err error) bool { return err == nil && strings.Contains(out, sign) })
}

const (
	probeDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: probe}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: "i:1"}]}}
`
	probeConfigMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: probe, labels: {formspec.dev/workspace: probe}}
`
)

// What Kubernetes normalises, and what others add on the way in, is no drift: at rest nothing is written. FR-13.
func TestAdditionsAreLeftAlone(t *testing.T) {
	t.Parallel()
	addLabel := `Object{metadata: Object.metadata{labels: {"example.com/team": "payments"}, annotations: {"example.com/by": "policy"}},
          spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{labels: {"example.com/team": "payments"}}}}}`
	addSidecar := `[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value: Object.spec.template.spec.containers{
          name: "sidecar", image: "example.com/sidecar:1",
          securityContext: Object.spec.template.spec.containers.securityContext{allowPrivilegeEscalation: false,
            capabilities: Object.spec.template.spec.containers.securityContext.capabilities{drop: ["ALL"]}}}}]`
	const pullPolicy = `[JSONPatch{op: "add", path: "/spec/template/spec/containers/0/imagePullPolicy", value: "Never"}]`
	for name, row := range map[string]struct {
		given     func(*scenario)
		resources v1alpha1.WorkspaceResources
		present   string // in the Deployment or its pods
	}{
		"quantities that are normalised": {func(*scenario) {}, v1alpha1.WorkspaceResources{CPU: "1000m", Memory: "1024Mi"}, `{"cpu":"1","memory":"1Gi"}`},
		"quantities that are rounded":    {func(*scenario) {}, v1alpha1.WorkspaceResources{CPU: "100500u", Memory: "300.0001Mi"}, `"cpu":"101m"`},
		"limits of a LimitRange": {func(s *scenario) {
			s.apply(`
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, default: {cpu: "3"}}]}
`)
		}, v1alpha1.WorkspaceResources{}, `"cpu":"3"`},
		"labels of a policy": {func(s *scenario) {
			s.mutate("apps", "v1", "deployments", "ApplyConfiguration", "applyConfiguration", addLabel, probeDeployment, "payments")
		}, v1alpha1.WorkspaceResources{}, "payments"},
		"an imagePullPolicy of a policy": {func(s *scenario) {
			s.mutate("apps", "v1", "deployments", "JSONPatch", "jsonPatch", pullPolicy, probeDeployment, `"Never"`)
		}, v1alpha1.WorkspaceResources{}, `"imagePullPolicy":"Never"`},
		"a sidecar of a policy": {func(s *scenario) {
			s.mutate("apps", "v1", "deployments", "JSONPatch", "jsonPatch", addSidecar, probeDeployment, "sidecar")
		}, v1alpha1.WorkspaceResources{}, "sidecar"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			row.given(s)
			shop := s.workspace("shop", s.class(full), func(ws *v1alpha1.Workspace) { ws.Spec.Resources = row.resources }).ready()
			shop.rolledOut()
			before := shop.deployment()
			if text := pretty(before.Spec) + pretty(before.Labels) + pretty(shop.pods()[0].Spec); !strings.Contains(text, row.present) {
				t.Fatalf("the Deployment does not show what this test is about: %s", text)
			}

			// when the operator looks again
			start := s.now()
			for _, owner := range []string{"one", "two"} {
				shop.patch(fmt.Sprintf(`{"spec":{"owner":%q}}`, owner))
				shop.ready()
			}
			version := shop.get().ResourceVersion

			// then
			s.lasts(atRest(), "nothing changes", func() error {
				if now := shop.get().ResourceVersion; now != version {
					return fmt.Errorf("the Workspace has version %s, had %s", now, version)
				}
				return readyNow(shop.get())
			})
			if writes := s.sent(start, request.write, func(r request) bool { return r.resource() != "workspaces/status" && r.resource() != "events" }); len(writes) > 0 {
				t.Errorf("the operator wrote:%s", list(writes))
			}
			if now := shop.deployment(); now.Generation != before.Generation {
				t.Errorf("the Deployment is of generation %d, was %d", now.Generation, before.Generation)
			}
			if c := meta.FindStatusCondition(shop.get().Status.Conditions, v1alpha1.ConditionOverridden); c != nil {
				t.Errorf("an addition is taken for an override: %s", c.Message)
			}
		})
	}
}

// Whoever rewrites what is ours wins, is not fought, and is named; the Workspace is as Ready as ever. When it stops, ours is back. FR-13.
func TestOverridesAreNotFought(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		given    func(*scenario)
		resource string
		names    []string
	}{
		"a value in the pod template": {
			func(s *scenario) {
				s.mutate("apps", "v1", "deployments", "ApplyConfiguration", "applyConfiguration",
					`Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{terminationGracePeriodSeconds: 77}}}}`,
					probeDeployment, ": 77")
			}, "deployments", []string{`Deployment "formspec-resource-shop"`, "spec.template.spec.terminationGracePeriodSeconds"},
		},
		"a container's image": {
			func(s *scenario) {
				s.mutate("apps", "v1", "deployments", "JSONPatch", "jsonPatch",
					`[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "mirror.example.com/app:1"}]`,
					probeDeployment, "mirror.example.com")
			}, "deployments", []string{`Deployment "formspec-resource-shop"`, "spec.template.spec.containers[0].image"},
		},
		"the value of a label": {
			func(s *scenario) {
				s.mutate("", "v1", "configmaps", "JSONPatch", "jsonPatch",
					`has(object.metadata.labels) && "formspec.dev/workspace" in object.metadata.labels ?
          [JSONPatch{op: "replace", path: "/metadata/labels/formspec.dev~1workspace", value: "mine"}] : []`,
					probeConfigMap, `"mine"`)
			}, "configmaps", []string{`ConfigMap "formspec-resource-shop-config"`, "metadata.labels.formspec.dev/workspace"},
		},
		"the label by which we know our own": {
			func(s *scenario) {
				s.mutate("", "v1", "configmaps", "JSONPatch", "jsonPatch",
					`has(object.metadata.labels) && "formspec.dev/workspace" in object.metadata.labels ?
          [JSONPatch{op: "add", path: "/metadata/labels/app.kubernetes.io~1managed-by", value: "them"}] : []`,
					probeConfigMap, `"them"`)
			}, "configmaps", []string{`ConfigMap "formspec-resource-shop-config"`, "metadata.labels.app.kubernetes.io/managed-by"},
		},
		"a key that is taken away": {
			func(s *scenario) {
				s.mutate("", "v1", "configmaps", "JSONPatch", "jsonPatch",
					`has(object.data) && "sla" in object.data ? [JSONPatch{op: "remove", path: "/data/sla"}] :
          [JSONPatch{op: "add", path: "/data", value: {"seen": "yes"}}]`,
					probeConfigMap, `"seen"`)
			}, "configmaps", []string{`ConfigMap "formspec-resource-shop-config"`, "data.sla"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			row.given(s)
			start, began := s.now(), time.Now()

			// when
			shop := s.workspace("shop", s.class(full)).ready()

			// then
			overridden := func() error {
				return condition(shop.get(), v1alpha1.ConditionOverridden, metav1.ConditionTrue, v1alpha1.ReasonOverridden, row.names...)
			}
			s.eventually("the override is told", overridden)
			for i := range 10 { // the operator looks again and again
				shop.patch(fmt.Sprintf(`{"spec":{"owner":"%d"}}`, i))
				shop.ready()
			}
			s.lasts(atRest(), "it is Ready and tells so", func() error {
				if err := readyNow(shop.get()); err != nil {
					return err
				}
				return overridden()
			})
			bound := 3 + int(time.Since(began)/(5*time.Minute)) // one to create, one to notice, and one every five minutes
			if writes := s.sent(start, request.write, about(row.resource)); len(writes) > bound {
				t.Errorf("the operator wrote %d times, want at most %d:%s", len(writes), bound, list(writes))
			}
			if revisions := len(shop.replicaSets()); revisions != 1 {
				t.Errorf("there were %d revisions", revisions)
			}

			// when the policy is gone and there is something else to write
			s.kubectl("delete", "mutatingadmissionpolicybinding", s.namespace)
			s.eventually("the policy has no effect any more", func() error {
				out, err := s.cluster.kubectlWith(s.Context(), probeDeployment+"---"+probeConfigMap, "-n", s.namespace, "create", "--dry-run=server", "-o", "json", "-f", "-")
				if err != nil {
					return err
				}
				for _, sign := range []string{": 77", "mirror.example.com", `"mine"`, `"them"`, `"seen"`} {
					if strings.Contains(out, sign) {
						return fmt.Errorf("the probe comes out with %s", sign)
					}
				}
				return nil
			})
			s.patchClass(&v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: shop.get().Spec.ClusterClass}},
				`{"spec":{"sla":"99.9","resourceImage":"example.com/app:2"}}`)

			// then
			s.eventually("the condition is gone, and the children are ours", func() error {
				if c := meta.FindStatusCondition(shop.get().Status.Conditions, v1alpha1.ConditionOverridden); c != nil {
					return fmt.Errorf("it still says %s", c.Message)
				}
				return shop.asRendered()
			})
		})
	}
}
