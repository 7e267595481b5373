// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// manager is the field manager of all children.
const manager = "formspec-workspace"

// childKind is a kind of child, and its name for a Workspace.
type childKind struct {
	kind     string
	resource schema.GroupVersionResource
	name     func(workspace string) string
}

// childKinds are all kinds of children; a class that is full has each of them.
var childKinds = []childKind{
	{"Secret", schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, names.Credentials},
	{"ConfigMap", schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, names.ConfigMap},
	{"Service", schema.GroupVersionResource{Version: "v1", Resource: "services"}, names.Deployment},
	{"Deployment", schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, names.Deployment},
	{"PodDisruptionBudget", schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}, names.Deployment},
	{"HorizontalPodAutoscaler", schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}, names.Deployment},
}

// sleeperKinds are the other children, of a Workspace that an activator wakes.
var sleeperKinds = []childKind{
	{"Service", schema.GroupVersionResource{Version: "v1", Resource: "services"}, names.Pods},
	{"EndpointSlice", schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}, names.Activator},
}

func kindOf(kind string) childKind {
	all := slices.Concat(childKinds, sleeperKinds)
	return all[slices.IndexFunc(all, func(k childKind) bool { return k.kind == kind })]
}

func (k childKind) gvk() schema.GroupVersionKind { return k.resource.GroupVersion().WithKind(k.kind) }

// object returns an empty object of the kind under the name of a Workspace's child.
func (k childKind) object(workspace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(k.gvk())
	object.SetName(k.name(workspace))
	return object
}

// of is the client of the kind in the scenario's namespace.
func (k childKind) of(s *scenario) dynamic.ResourceInterface {
	return s.dynamic.Resource(k.resource).Namespace(s.namespace)
}

// child returns a child, or nil if there is none.
func (w *tenant) child(k childKind) *unstructured.Unstructured {
	w.Helper()
	object, err := k.of(w.scenario).Get(w.Context(), k.name(w.name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must("get the "+k.kind, err)
	return object
}

// patchChild changes a child as somebody else, by a JSON patch (a list) or a merge patch (an object).
func (w *tenant) patchChild(k childKind, patch string) {
	w.Helper()
	patchType := types.MergePatchType
	if strings.HasPrefix(patch, "[") {
		patchType = types.JSONPatchType
	}
	_, err := k.of(w.scenario).Patch(w.Context(), k.name(w.name), patchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	w.must("patch the "+k.kind, err)
}

// deleteChild deletes a child and what belongs to it, and returns its UID.
func (w *tenant) deleteChild(k childKind) types.UID {
	w.Helper()
	uid := w.child(k).GetUID()
	background := metav1.DeletePropagationBackground
	err := k.of(w.scenario).Delete(w.Context(), k.name(w.name), metav1.DeleteOptions{PropagationPolicy: &background})
	w.must("delete the "+k.kind, err)
	return uid
}

// rendered returns what the command "render" says that the Workspace becomes, by kind.
func (w *tenant) rendered() map[string]map[string]any {
	w.Helper()
	ws := w.get()
	class, err := w.formspec.FormspecV1alpha1().ClusterClasses().Get(w.Context(), ws.Spec.ClusterClass, metav1.GetOptions{})
	w.must("get the class", err)
	input, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{
		v1alpha1.ClusterClass{
			TypeMeta:   metav1.TypeMeta{APIVersion: "formspec.dev/v1alpha1", Kind: "ClusterClass"},
			ObjectMeta: metav1.ObjectMeta{Name: class.Name, Labels: class.Labels},
			Spec:       class.Spec,
		},
		v1alpha1.Workspace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "formspec.dev/v1alpha1", Kind: "Workspace"},
			ObjectMeta: metav1.ObjectMeta{Name: ws.Name, Namespace: ws.Namespace, UID: ws.UID, Annotations: ws.Annotations},
			Spec:       ws.Spec,
			Status:     v1alpha1.WorkspaceStatus{Artifact: ws.Status.Artifact},
		},
	}})
	w.must("encode the input of render", err)
	out, err := w.render(string(input))
	w.must("render", err)
	byKind := map[string]map[string]any{}
	for _, object := range w.decode(out) {
		byKind[object["kind"].(string)] = object
	}
	return byKind
}

// applied returns what the operator has applied of each child.
func (w *tenant) applied() map[string]map[string]any {
	w.Helper()
	byKind := map[string]map[string]any{}
	for _, k := range childKinds {
		if object := w.child(k); object != nil {
			config, err := extract(object)
			w.must("read what we applied of "+k.kind, err)
			byKind[k.kind] = config
		}
	}
	return byKind
}

// asRendered returns an error unless the operator has applied exactly what "render" prints.
func (w *tenant) asRendered() error { return w.asRenderedBut() }

// asRenderedBut leaves out kinds that depend on more than the Workspace and its class.
func (w *tenant) asRenderedBut(kinds ...string) error {
	return sameChildren(w.rendered(), w.applied(), kinds...)
}

func sameChildren(want, have map[string]map[string]any, but ...string) error {
	for kind, config := range want {
		if !slices.Contains(but, kind) && !reflect.DeepEqual(normal(config), normal(have[kind])) {
			return fmt.Errorf("the %s is not as rendered:\nwant %s\nhave %s", kind, pretty(config), pretty(have[kind]))
		}
	}
	if len(have) != len(want) {
		return fmt.Errorf("there are %d children and %d are rendered", len(have), len(want))
	}
	return nil
}

// normal makes numbers of all Go types alike.
func normal(v any) any {
	var out any
	encoded, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(encoded, &out)
	}
	if err != nil {
		return err
	}
	return out
}

func pretty(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}
