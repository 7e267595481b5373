// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// doomed is the scenario in a further namespace, which the test deletes itself.
func (s *scenario) doomed(suffix string) *scenario {
	s.Helper()
	other := *s
	other.namespace = s.namespace + "-" + suffix
	s.createNamespace(other.namespace)
	s.Cleanup(func() {
		err := s.kube.CoreV1().Namespaces().Delete(contextBeyond(s), other.namespace, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			s.Errorf("delete the namespace: %v", err)
		}
	})
	return &other
}

// A namespace that cannot go, because somebody holds one of its objects, is no reason for a flood of requests or errors, and no other
// namespace waits for it. FR-05.
func TestANamespaceThatLingers(t *testing.T) {
	t.Parallel()
	const finalizer = "example.com/hold"
	hold := `{"metadata":{"finalizers":["` + finalizer + `"]}}`
	for name, prepare := range map[string]func(*tenant){
		"as it is": func(*tenant) {},
		"a Workspace that is deleted already": func(w *tenant) {
			w.deleteWith(metav1.DeletePropagationForeground)
		},
		"a Workspace that somebody holds": func(w *tenant) {
			w.patch(`{"metadata":{"finalizers":["` + v1alpha1.WorkspaceFinalizer + `","` + finalizer + `"]}}`)
		},
		"a Workspace that is not Ready": func(w *tenant) {
			s := w.scenario
			s.kubectl("delete", "service", names.Deployment(w.name)) // it is about to be made again
		},
		"a Datastore and a claim that somebody holds": func(w *tenant) {
			me := w.publishedOwner()
			pg := me.datastore("files", v1alpha1.DriverFS, "/srv/files").ready()
			claim := me.grant("files", "files", w.name).approved()
			pg.patch(hold)
			claim.patch(hold)
			w.kubectl("delete", "secret", names.Datastore("files"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			class := s.class(full)
			there := s.doomed("doomed")
			shop := there.workspace("shop", class).ready()
			for _, kind := range []string{"ConfigMap", "Deployment"} {
				shop.patchChild(kindOf(kind), hold)
			}
			start := s.now()

			// when
			prepare(shop)
			s.kubectl("delete", "namespace", there.namespace, "--wait=false")
			shop.deleteChild(kindOf("Deployment"))

			// then another namespace is served
			began := time.Now()
			s.workspace("neighbour", class).ready()
			t.Logf("the neighbour was Ready after %s", time.Since(began).Round(time.Millisecond))

			// then the namespace lingers, in peace
			s.eventually("nothing is left but what somebody holds", func() error {
				for _, k := range childKinds {
					held := k.kind == "ConfigMap" || k.kind == "Deployment"
					if child := shop.child(k); child != nil && !held {
						return fmt.Errorf("there still is a %s", k.kind)
					}
				}
				return nil
			})
			s.lasts(atRest(), "the namespace lingers", func() error {
				_, err := s.kube.CoreV1().Namespaces().Get(t.Context(), there.namespace, metav1.GetOptions{})
				return err
			})
			// A handful of attempts to make a child may have come too late.
			late := there.sent(start, request.write, func(r request) bool { return r.Response.Code == 403 && r.resource() != "events" })
			if len(late) > 6 {
				t.Errorf("%d attempts to write into a namespace that is going:%s", len(late), list(late))
			}
			if all := there.sent(start, request.write); len(all) > 40 {
				t.Errorf("%d writes:%s", len(all), list(all))
			}
			for line := range strings.Lines(s.operator.grep(there.namespace, 10000)) {
				if errorLine.MatchString(line) {
					t.Errorf("the operator logged an error: %s", line)
				}
			}

			// when they are let go, the namespace goes
			for _, kind := range []string{"ConfigMap", "Deployment"} {
				if shop.child(kindOf(kind)) != nil {
					shop.patchChild(kindOf(kind), `{"metadata":{"finalizers":null}}`)
				}
			}
			if ws, err := s.formspec.FormspecV1alpha1().Workspaces(there.namespace).Get(t.Context(), shop.name, metav1.GetOptions{}); err == nil {
				if len(ws.Finalizers) != 1 || ws.Finalizers[0] != finalizer {
					t.Errorf("the Workspace has the finalizers %q, want only somebody's", ws.Finalizers)
				}
				shop.patch(`{"metadata":{"finalizers":null}}`)
			}
			for _, resource := range []string{"datastores", "resourceclaims"} {
				there.letGo(resource, finalizer)
			}
			s.eventually("the namespace is gone", func() error {
				_, err := s.kube.CoreV1().Namespaces().Get(t.Context(), there.namespace, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return errors.Join(errors.New("it is still there"), err)
			})
		})
	}
}

// letGo takes the only finalizer from the objects of one of our kinds.
func (s *scenario) letGo(resource, finalizer string) {
	s.Helper()
	api := s.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Namespace(s.namespace)
	list, err := api.List(s.Context(), metav1.ListOptions{})
	s.must("list the "+resource, err)
	for _, object := range list.Items {
		if have := object.GetFinalizers(); len(have) != 1 || have[0] != finalizer {
			s.Errorf("%s/%s has the finalizers %q, want only somebody's", resource, object.GetName(), have)
		}
		_, err := api.Patch(s.Context(), object.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		s.must("let go of the "+resource, err)
	}
}

// deleteWith deletes the Workspace, and does not wait.
func (w *tenant) deleteWith(policy metav1.DeletionPropagation) {
	w.Helper()
	err := w.formspec.FormspecV1alpha1().Workspaces(w.namespace).Delete(w.Context(), w.name, metav1.DeleteOptions{PropagationPolicy: &policy})
	w.must("delete the Workspace", err)
}
