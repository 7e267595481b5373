// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// start is when every test begins.
var start = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)

// option changes what is given to a plan. Options apply in order: settled is what was settled before it.
type option func(*workspace.Input)

// given is a workspace "shop" of an empty class, and the options.
func given(options ...option) workspace.Input {
	in := workspace.Input{
		Now: start,
		Settings: workspace.Settings{
			ClusterName: "jkt-1", Image: "formahub/formspec-resource:1.4.2",
			ScaleToZero: workspace.ModeActivator, IdleAfter: 5 * time.Minute, WakeDeadline: time.Minute,
		},
		Workspace: &v1alpha1.Workspace{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "bank", Name: "shop", UID: "uid-of-shop", ResourceVersion: "70", Generation: 3,
				Finalizers: []string{v1alpha1.WorkspaceFinalizer},
			},
			Spec: v1alpha1.WorkspaceSpec{ClusterClass: "standard"},
		},
		Class:    &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}},
		Admitted: "standard",
	}
	return then(in, options...)
}

// then changes what was given before.
func then(in workspace.Input, options ...option) workspace.Input {
	for _, apply := range options {
		apply(&in)
	}
	if in.Admitted != "" && in.Class != nil { // a slot follows the class; waiting takes it away
		in.Admitted = in.Class.Name
	}
	return in
}

// waiting is a workspace without a slot of its class.
func waiting(in *workspace.Input) { in.Admitted = "" }

func settings(change func(*workspace.Settings)) option {
	return func(in *workspace.Input) { change(&in.Settings) }
}

func object(change func(*v1alpha1.Workspace)) option {
	return func(in *workspace.Input) { change(in.Workspace) }
}

func spec(change func(*v1alpha1.WorkspaceSpec)) option {
	return func(in *workspace.Input) { change(&in.Workspace.Spec) }
}

func class(change func(*v1alpha1.ClusterClass)) option {
	return func(in *workspace.Input) { change(in.Class) }
}

func noClass(in *workspace.Input) { in.Class = nil }

func scaling(s v1alpha1.ClusterClassScaling) option {
	return class(func(c *v1alpha1.ClusterClass) { c.Spec.Scaling = s })
}

// minimum is a class minimum of n replicas.
func minimum(n int32) option {
	return class(func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.MinReplicas = n })
}

// scaleToZero is a class that scales to zero, with an activator that is ready and has just seen a request.
func scaleToZero(in *workspace.Input) {
	in.Class.Spec.Scaling.ScaleToZero = true
	activators("10.0.0.1", "10.0.0.2")(in)
}

func noScaleToZero(in *workspace.Input) { in.Class.Spec.Scaling.ScaleToZero = false }

// activators are the activator pods that are ready.
func activators(addresses ...string) option {
	return func(in *workspace.Input) {
		in.Traffic.Activators = workspace.Activators{AddressType: discoveryv1.AddressTypeIPv4, Addresses: addresses, Port: 8080}
	}
}

// quietFor is how long nobody has asked for the workspace.
func quietFor(d time.Duration) option { return func(in *workspace.Input) { in.Traffic.Quiet = d } }

// request is one that the activator told of.
func request(in *workspace.Input) {
	in.Traffic.Lease, in.Traffic.Quiet = in.Traffic.Lease+"1", 0
}

// busy is a request to a workspace that nobody calls idle any more.
func busy(in *workspace.Input) {
	notIdle(in)
	request(in)
}

func resources(cpu, memory string) option {
	return spec(func(s *v1alpha1.WorkspaceSpec) {
		s.Resources = v1alpha1.WorkspaceResources{CPU: cpu, Memory: memory}
	})
}

func features(names ...string) option {
	return class(func(c *v1alpha1.ClusterClass) { c.Spec.Features = names })
}

var (
	autoScaling   = features(v1alpha1.FeatureAutoScaling)
	noAutoScaling = features()
)

func annotated(key, value string) option {
	return object(func(ws *v1alpha1.Workspace) { metav1.SetMetaDataAnnotation(&ws.ObjectMeta, key, value) })
}

var (
	idle    = annotated(v1alpha1.AnnotationIdle, "true")
	notIdle = object(func(ws *v1alpha1.Workspace) { delete(ws.Annotations, v1alpha1.AnnotationIdle) })
)

func deleted(in *workspace.Input) { in.Workspace.DeletionTimestamp = new(metav1.NewTime(start)) }

// at sets the time of the decision to this long after the start.
func at(after time.Duration) option {
	return func(in *workspace.Input) { in.Now = start.Add(after) }
}

// settled carries out the plan, as an API server and the controller would, until it is empty.
func settled(in *workspace.Input) { settle(in) }

// planned carries out the plan once: what was written is seen, and so is the status.
func planned(in *workspace.Input) { execute(in, workspace.Make(*in)) }

// rollout is what the Deployment reports: replicas, updated, ready and available ones, all of its newest generation.
func rollout(replicas, updated, available int32) option {
	return deployment(func(d *appsv1.Deployment) {
		d.Status.ObservedGeneration = d.Generation
		d.Status.Replicas, d.Status.UpdatedReplicas = replicas, updated
		d.Status.ReadyReplicas, d.Status.AvailableReplicas = available, available
	})
}

// ready is a rollout that is complete, with n replicas.
func ready(n int32) option {
	return func(in *workspace.Input) {
		rollout(n, n, n)(in)
		progressing(corev1.ConditionTrue, "NewReplicaSetAvailable", `ReplicaSet "formspec-resource-shop-7d4f" has successfully progressed.`)(in)
		planned(in)
	}
}

func deployment(change func(*appsv1.Deployment)) option {
	return func(in *workspace.Input) {
		in.Children.Deployment.Live = in.Children.Deployment.Live.DeepCopy()
		change(in.Children.Deployment.Live)
	}
}

func progressing(status corev1.ConditionStatus, reason, message string) option {
	return deploymentCondition(appsv1.DeploymentProgressing, status, reason, message)
}

func deploymentCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) option {
	return deployment(func(d *appsv1.Deployment) {
		for i := range d.Status.Conditions {
			if d.Status.Conditions[i].Type == kind {
				d.Status.Conditions[i].Status, d.Status.Conditions[i].Reason, d.Status.Conditions[i].Message = status, reason, message
				return
			}
		}
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason, Message: message})
	})
}

// scaled is what an autoscaler, or a person, writes to the Deployment's scale: the count is theirs from then on.
func scaled(n int32) option {
	return func(in *workspace.Input) {
		deployment(func(d *appsv1.Deployment) { d.Spec.Replicas = &n; d.Generation++ })(in)
		if ours := in.Children.Deployment.Ours; ours.Spec != nil && ours.Spec.Replicas != nil && *ours.Spec.Replicas != n {
			ours.Spec.Replicas = nil
		}
	}
}

// readyCondition is the condition Ready of a status.
func readyCondition(status v1alpha1.WorkspaceStatus) metav1.Condition {
	return conditionOf(status, v1alpha1.ConditionReady)
}

// conditionOf is one condition, empty if there is none.
func conditionOf(status v1alpha1.WorkspaceStatus, kind string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(status.Conditions, kind), metav1.Condition{})
}
