// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"encoding/json"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// settle carries plans out until nothing is left to write.
func settle(in *workspace.Input) {
	for range 5 {
		plan := workspace.Make(*in)
		if quiet(*in, plan) == "" {
			return
		}
		execute(in, plan)
	}
	panic("the plan never becomes empty: " + quiet(*in, workspace.Make(*in)))
}

// quiet says what a plan would still do. Empty: nothing.
func quiet(in workspace.Input, plan workspace.Plan) string {
	switch {
	case plan.Finalizer != reconcile.FinalizerKeep:
		return fmt.Sprintf("finalizer %d", plan.Finalizer)
	case len(plan.Apply) > 0:
		return "apply " + asJSON(plan.Apply[0].Config)
	case len(plan.Delete) > 0:
		return fmt.Sprintf("delete %v", plan.Delete)
	case asJSON(plan.Status) != asJSON(in.Workspace.Status):
		return fmt.Sprintf("status %s instead of %s", asJSON(plan.Status), asJSON(in.Workspace.Status))
	default:
		return ""
	}
}

// writes are the writes of a plan in short, each with its precondition.
func writes(plan workspace.Plan) []string {
	var all []string
	for _, write := range plan.Apply {
		kind := *write.Config.GetKind()
		switch {
		case write.Create && write.UID == "" && write.ResourceVersion == "":
			all = append(all, kind+" if the name is free")
		case !write.Create && write.UID != "" && write.ResourceVersion == "":
			all = append(all, fmt.Sprintf("%s if %s", kind, write.UID))
		case !write.Create && write.UID != "":
			all = append(all, fmt.Sprintf("%s if %s and %s", kind, write.UID, write.ResourceVersion))
		default:
			all = append(all, fmt.Sprintf("%s create=%v uid=%v resourceVersion=%v", kind, write.Create, write.UID, write.ResourceVersion))
		}
	}
	return all
}

// execute does what the API server and the controller make of a plan, so that in is what the next sync finds.
func execute(in *workspace.Input, plan workspace.Plan) {
	in.Workspace = in.Workspace.DeepCopy()
	switch plan.Finalizer {
	case reconcile.FinalizerAdd:
		in.Workspace.Finalizers = append(in.Workspace.Finalizers, v1alpha1.WorkspaceFinalizer)
	case reconcile.FinalizerRemove:
		in.Workspace.Finalizers = slices.DeleteFunc(in.Workspace.Finalizers, func(f string) bool { return f == v1alpha1.WorkspaceFinalizer })
	}
	c := &in.Children
	for _, write := range plan.Apply {
		switch kind := *write.Config.GetKind(); kind {
		case "Secret":
			store(&c.Credentials, write)
		case "ConfigMap":
			store(&c.ConfigMap, write)
		case "Service":
			if *write.Config.GetName() == names.Pods(in.Workspace.Name) {
				store(&c.PodsService, write)
			} else {
				store(&c.Service, write)
			}
		case "EndpointSlice":
			store(&c.Slice, write)
		case "Deployment":
			generation, before := int64(0), ""
			if c.Deployment.Exists() {
				generation, before = c.Deployment.Live.Generation, asJSON(c.Deployment.Live.Spec)
			}
			store(&c.Deployment, write)
			if c.Deployment.Live.Generation = generation; asJSON(c.Deployment.Live.Spec) != before {
				c.Deployment.Live.Generation++
			}
		case "PodDisruptionBudget":
			store(&c.DisruptionBudget, write)
		case "HorizontalPodAutoscaler":
			store(&c.Autoscaler, write)
		case keda.Kind:
			store(&c.HTTPScaledObject, write)
		default:
			panic("no child of kind " + kind)
		}
	}
	for _, child := range plan.Delete {
		switch child.Kind {
		case "ConfigMap":
			c.ConfigMap = workspace.ConfigMap{}
		case "Service":
			if child.Name == names.Pods(in.Workspace.Name) {
				c.PodsService = workspace.Service{}
			} else {
				c.Service = workspace.Service{}
			}
		case "Endpoints":
		case "EndpointSlice":
			if child.Name == names.Activator(in.Workspace.Name) {
				c.Slice = workspace.Slice{}
			}
			c.Theirs = slices.DeleteFunc(c.Theirs, func(s *discoveryv1.EndpointSlice) bool { return s.UID == child.UID })
		case "Deployment":
			c.Deployment = workspace.Deployment{}
		case "PodDisruptionBudget":
			c.DisruptionBudget = workspace.DisruptionBudget{}
		case "HorizontalPodAutoscaler":
			c.Autoscaler = workspace.Autoscaler{}
		case keda.Kind:
			c.HTTPScaledObject = workspace.HTTPScaledObject{}
		default:
			panic("nobody deletes a " + child.Kind)
		}
	}
	in.Workspace.Status = plan.Status
}

// store is a server-side apply: what we state is the object's and ours; what we state no longer is gone; what others set stays, which
// here is the status and, under another owner, the replica count.
func store[T reconcile.Object, C reconcile.TypedConfig[C]](child *reconcile.Child[T, C], write reconcile.Write) {
	if write.Create == child.Exists() {
		panic(fmt.Sprintf("create=%v of a %s whose existence is %v", write.Create, *write.Config.GetKind(), child.Exists()))
	}
	sent := fields(asJSON(write.Config))
	delete(sent["metadata"].(map[string]any), "uid")
	delete(sent["metadata"].(map[string]any), "resourceVersion")
	child.Ours = decode[C](sent)

	uid := types.UID("uid-of-" + *write.Config.GetKind())
	if child.Exists() {
		before := fields(asJSON(child.Live))
		uid, sent["status"] = child.Live.GetUID(), before["status"]
		if spec, ok := sent["spec"].(map[string]any); ok && spec["replicas"] == nil && before["kind"] == "Deployment" {
			spec["replicas"] = before["spec"].(map[string]any)["replicas"]
		}
	}
	child.Live = decode[T](sent)
	child.Live.SetUID(uid)
	child.Live.SetResourceVersion("71")
}

// decode makes a pointer type from fields, through JSON as on the wire.
func decode[T any](object any) T {
	out := new(T)
	if err := json.Unmarshal([]byte(asJSON(object)), out); err != nil {
		panic(err)
	}
	return *out
}

func fields(text string) map[string]any {
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(err)
	}
	return out
}

func asJSON(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// ownedBy makes an object a child of the workspace of that UID.
func ownedBy(object metav1.Object, uid types.UID) {
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Workspace", Name: "shop", UID: uid, Controller: new(true),
	}})
}
