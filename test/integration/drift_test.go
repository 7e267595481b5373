// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// drifts are what somebody changes in our fields, by kind.
var drifts = map[string]map[string]string{
	"Deployment": {
		"image":    `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/other:1"}]`,
		"env":      `[{"op":"remove","path":"/spec/template/spec/containers/0/env/0"}]`,
		"strategy": `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`,
	},
	"Secret":                  {},
	"ConfigMap":               {"value": `{"data":{"region":"elsewhere"}}`, "key": `{"data":{"region":null}}`},
	"Service":                 {"selector": `{"spec":{"selector":{"formspec.dev/workspace":"another"}}}`},
	"HorizontalPodAutoscaler": {"bound": `{"spec":{"minReplicas":1}}`},
	"PodDisruptionBudget":     {"maximum": `{"spec":{"maxUnavailable":"100%"}}`},
}

// What somebody changes in our fields is put back, with one write.
func TestDriftIsHealed(t *testing.T) {
	t.Parallel()
	for kind, specific := range drifts {
		patches := map[string]string{
			"a label is removed":   `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`,
			"all labels are gone":  `{"metadata":{"labels":null}}`,
			"a label is different": `{"metadata":{"labels":{"formspec.dev/workspace":"another"}}}`,
		}
		if kind != "Secret" {
			patches["the owner is removed"] = `{"metadata":{"ownerReferences":null}}`
		}
		maps.Copy(patches, specific)
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			shop := s.workspace("shop", s.class(full)).ready()
			for _, name := range slices.Sorted(maps.Keys(patches)) {
				shop.heals(name, kindOf(kind), patches[name])
			}
		})
	}
	t.Run("replicas", func(t *testing.T) {
		t.Parallel()
		s := given(t)
		shop := s.workspace("shop", s.class()).ready()
		shop.heals("replicas", kindOf("Deployment"), `{"spec":{"replicas":5}}`)
	})
}

func (w *tenant) heals(drift string, k childKind, patch string) {
	w.Helper()
	before := w.child(k)

	// when
	start := w.now()
	w.patchChild(k, patch)

	// then
	w.eventually(drift+": the "+k.kind+" is healed", func() error {
		if len(w.sent(start, about(k.resource.Resource), wrote)) == 0 {
			return fmt.Errorf("the %s has not been written", k.kind)
		}
		return w.asRendered()
	})
	w.ready()
	if after := w.child(k); after.GetUID() != before.GetUID() {
		w.Errorf("%s: the %s was replaced", drift, k.kind)
	}
	if writes := w.sent(start, about(k.resource.Resource), wrote); len(writes) != 1 {
		w.Errorf("%s: %d writes, want 1:%s", drift, len(writes), list(writes))
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
	s := given(t)
	shop := s.workspace("shop", s.class(full)).ready()
	for _, k := range childKinds {
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
		children := func(r request) bool { return r.resource() != "workspaces/status" && r.resource() != "events" }
		if writes := s.sent(start, request.write, children); len(writes) != 1 {
			t.Errorf("%s: %d writes to children, want 1:%s", k.kind, len(writes), list(writes))
		}
	}
}
