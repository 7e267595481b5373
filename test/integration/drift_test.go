// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// What somebody changes in our fields is put back, with one write.
func TestDriftIsHealed(t *testing.T) {
	t.Parallel()
	fixed := func(class *v1alpha1.ClusterClass) { class.Spec.Scaling.MinReplicas = 2 }
	type drift struct {
		class func(*v1alpha1.ClusterClass)
		kind  string
		patch string
	}
	rows := map[string]drift{
		"image":           {full, "Deployment", `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/other:1"}]`},
		"env":             {full, "Deployment", `[{"op":"remove","path":"/spec/template/spec/containers/0/env/0"}]`},
		"replicas":        {fixed, "Deployment", `{"spec":{"replicas":5}}`},
		"strategy":        {full, "Deployment", `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`},
		"configuration":   {full, "ConfigMap", `{"data":{"region":"elsewhere"}}`},
		"selector":        {full, "Service", `{"spec":{"selector":{"formspec.dev/workspace":"another"}}}`},
		"scale bound":     {full, "HorizontalPodAutoscaler", `{"spec":{"minReplicas":1}}`},
		"eviction policy": {full, "PodDisruptionBudget", `{"spec":{"maxUnavailable":"100%"}}`},
	}
	for _, k := range childKinds {
		rows["label of "+k.kind] = drift{full, k.kind, `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`}
		rows["value of a label of "+k.kind] = drift{full, k.kind, `{"metadata":{"labels":{"formspec.dev/workspace":"another"}}}`}
		if k.kind != "Secret" {
			rows["owner of "+k.kind] = drift{full, k.kind, `{"metadata":{"ownerReferences":null}}`}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, k := given(t), kindOf(row.kind)
			shop := s.workspace("shop", s.class(row.class)).ready()
			before := shop.child(k)

			// when
			start := s.now()
			shop.patchChild(k, row.patch)

			// then
			s.eventually("the drift is healed", func() error {
				if len(s.sent(start, about(k.resource.Resource), wrote)) == 0 {
					return fmt.Errorf("the %s has not been written", k.kind)
				}
				return shop.asRendered()
			})
			shop.ready()
			if after := shop.child(k); after.GetUID() != before.GetUID() {
				t.Errorf("the %s was replaced", k.kind)
			}
			if writes := s.sent(start, about(k.resource.Resource), wrote); len(writes) != 1 {
				t.Errorf("%d writes, want 1:%s", len(writes), list(writes))
			}
		})
	}
}

// wrote selects the writes that changed something.
func wrote(r request) bool { return r.write() && r.Response.Code < 300 }

// What others set on our children is theirs.
func TestForeignFieldsAreLeftAlone(t *testing.T) {
	t.Parallel()
	const (
		deployment = "deployment/formspec-resource-shop"
		hint       = "example.com/hint"
	)
	for name, change := range map[string]struct {
		do    func(*tenant)
		check func(*tenant) string // what is there afterwards
		rolls bool
	}{
		"metadata of a child": {
			do: func(w *tenant) {
				w.kubectl("annotate", deployment, hint+"=annotation")
				w.kubectl("label", deployment, hint+"=label")
			},
			check: func(w *tenant) string { return w.deployment().Annotations[hint] + w.deployment().Labels[hint] },
		},
		"metadata of the pods, by another manager": {
			do: func(w *tenant) {
				_, err := w.cluster.kubectlWith(w.Context(), fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment",
					"metadata":{"name":"formspec-resource-shop","namespace":%q},
					"spec":{"template":{"metadata":{"annotations":{%q:"annotation"},"labels":{%q:"label"}}}}}`, w.namespace, hint, hint),
					"apply", "--server-side", "--field-manager=somebody", "-f", "-")
				w.must("apply", err)
			},
			check: func(w *tenant) string {
				template := w.deployment().Spec.Template
				return template.Annotations[hint] + template.Labels[hint]
			},
			rolls: true,
		},
		"rollout restart": {
			do: func(w *tenant) { w.kubectl("rollout", "restart", deployment) },
			check: func(w *tenant) string {
				if w.deployment().Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
					return "the restart is undone"
				}
				return "annotationlabel"
			},
			rolls: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			shop := s.workspace("shop", s.class(full)).ready()
			revisions := 1
			if change.rolls {
				revisions = 2
			}

			// when
			start := s.now()
			change.do(shop)
			shop.rolledOut()
			for _, owner := range []string{"one", "two"} { // the operator looks again, with nothing to change
				shop.patch(fmt.Sprintf(`{"spec":{"owner":%q}}`, owner))
				shop.ready()
			}

			// then
			if have := change.check(shop); have != "annotationlabel" {
				t.Errorf("what somebody set has gone: %q", have)
			}
			if writes := s.sent(start, about("deployments"), request.write); len(writes) > 0 {
				t.Errorf("the operator wrote the Deployment:%s", list(writes))
			}
			if have := len(shop.replicaSets()); have != revisions {
				t.Errorf("there are %d ReplicaSets, want %d", have, revisions)
			}
		})
	}
}

// A child that somebody deletes is made again, with one write, and nothing else is touched.
func TestDeletedChildrenAreMadeAgain(t *testing.T) {
	t.Parallel()
	for _, k := range childKinds {
		t.Run(k.kind, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			shop := s.workspace("shop", s.class(full)).ready()

			// when
			start := s.now()
			uid := shop.deleteChild(k)

			// then
			s.eventually("the "+k.kind+" is back", func() error {
				if child := shop.child(k); child == nil || child.GetUID() == uid {
					return fmt.Errorf("there is no new %s", k.kind)
				}
				return nil
			})
			shop.rolledOut()
			shop.ready()
			if err := shop.asRendered(); err != nil {
				t.Error(err)
			}
			writes := s.sent(start, request.write, func(r request) bool { return r.resource() != "workspaces/status" && r.resource() != "events" })
			if len(writes) != 1 {
				t.Errorf("%d writes to children, want 1:%s", len(writes), list(writes))
			}
		})
	}
}
