// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
)

// verdict is the one conclusion from which every condition follows.
type verdict struct {
	ready   metav1.ConditionStatus
	reason  string
	message string
	stalled bool
}

// Status is the whole new status, given what the plan is about to write.
func Status(in Input, p Plan) v1alpha1.WorkspaceStatus {
	v := in.assess(p)
	status := *in.Workspace.Status.DeepCopy()
	status.ObservedGeneration = in.Workspace.Generation
	status.ReadyReplicas = 0
	if d := in.Children.Deployment; mine(in.Workspace, d) {
		status.ReadyReplicas = d.Live.Status.ReadyReplicas
	}
	if v.ready == metav1.ConditionTrue && v.reason != v1alpha1.ReasonAsleep && status.FirstReadyTime == nil {
		status.FirstReadyTime = new(metav1.NewTime(in.Now).Rfc3339Copy())
	}
	status.Artifact = in.newest()
	status.AdmittedClass = in.Admitted
	status.Hosts = in.acceptedHosts()
	status.Phase = phase(v, status.FirstReadyTime != nil)

	set := func(conditionType string, value metav1.ConditionStatus, reason, message string) {
		status.Conditions = condition.Set(status.Conditions, metav1.Condition{
			Type: conditionType, Status: value, Reason: reason, Message: message, ObservedGeneration: in.Workspace.Generation,
		}, in.Now)
	}
	set(v1alpha1.ConditionReady, v.ready, v.reason, v.message)
	switch v.ready {
	case metav1.ConditionUnknown:
		set(v1alpha1.ConditionProgressing, metav1.ConditionTrue, v.reason, v.message)
	case metav1.ConditionTrue:
		set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonRolloutComplete, "nothing is being rolled out")
	default:
		set(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v.reason, "nothing gets ahead: "+v.message)
	}
	if status.Phase == v1alpha1.PhaseDegraded {
		set(v1alpha1.ConditionDegraded, metav1.ConditionTrue, v.reason, v.message)
	} else {
		set(v1alpha1.ConditionDegraded, metav1.ConditionFalse, v.reason, "the workspace has not lost what it had")
	}
	if v.stalled {
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, v.reason, v.message)
	} else {
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionStalled)
	}
	switch {
	case in.Admitted == in.Workspace.Spec.ClusterClass:
		set(v1alpha1.ConditionAdmitted, metav1.ConditionTrue, v1alpha1.ReasonAdmitted, "the workspace holds one of its class's slots")
	case v.reason == v1alpha1.ReasonClassFull:
		set(v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v.reason, v.message)
	default:
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionAdmitted)
	}
	if len(p.Overridden) > 0 {
		set(v1alpha1.ConditionOverridden, metav1.ConditionTrue, v1alpha1.ReasonOverridden,
			"a policy or webhook changes what the operator writes, which is not fought: "+strings.Join(p.Overridden, "; "))
	} else {
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionOverridden)
	}
	bound := in.datastoresBound()
	set(v1alpha1.ConditionDatastoresBound, bound.ready, bound.reason, bound.message)
	for _, optional := range []struct {
		conditionType string
		verdict       *verdict
	}{
		{v1alpha1.ConditionNameCollision, in.nameCollision()},
		{v1alpha1.ConditionAutoscalingActive, in.autoscalingActive()},
		{v1alpha1.ConditionScaleToZeroActive, in.scaleToZeroActive()},
		{v1alpha1.ConditionHostsAccepted, in.hostsAccepted()},
	} {
		if v := optional.verdict; v != nil {
			set(optional.conditionType, v.ready, v.reason, v.message)
		} else {
			status.Conditions = condition.Remove(status.Conditions, optional.conditionType)
		}
	}
	return status
}

// phase summarises: a workspace that was once Ready and failed is Degraded, one that never was is Pending.
func phase(v verdict, wasReady bool) v1alpha1.Phase {
	switch {
	case v.reason == v1alpha1.ReasonTerminating:
		return v1alpha1.PhaseTerminating
	case v.reason == v1alpha1.ReasonAsleep:
		return v1alpha1.PhaseSleeping
	case v.ready == metav1.ConditionTrue:
		return v1alpha1.PhaseReady
	case v.ready == metav1.ConditionFalse && wasReady:
		return v1alpha1.PhaseDegraded
	default:
		return v1alpha1.PhasePending
	}
}

// assess says how the Workspace is, the most telling reason first.
func (in Input) assess(p Plan) verdict {
	if in.Workspace.DeletionTimestamp != nil {
		v := verdict{metav1.ConditionFalse, v1alpha1.ReasonTerminating, "the workspace is being deleted; its credentials Secret stays", false}
		if r := in.Refusal; r != nil {
			v.message, v.stalled = v.message+". It waits, for "+r.Message, r.Stalled
		}
		return v
	}
	if o := obstruct(in); o != nil {
		return verdict{metav1.ConditionFalse, o.reason, o.message, o.stalled}
	}
	if r := in.refusal(); r != nil {
		return verdict{metav1.ConditionFalse, r.Reason, r.Message, r.Stalled}
	}
	if bound := in.datastoresBound(); bound.ready != metav1.ConditionTrue {
		return bound
	}
	if in.asleep() || in.kedaSleeps() {
		return in.sleeping()
	}
	if !in.Children.Deployment.Exists() {
		return in.progressing(in.minimum(), 0, 0)
	}
	return in.waking(in.rollout(in.Children.Deployment.Live, in.rolls(p)))
}

// rolls says whether the plan replaces the rollout that the cache shows by another.
func (in Input) rolls(p Plan) bool {
	for _, write := range p.Apply {
		if want, is := write.Config.(*appsv1ac.DeploymentApplyConfiguration); is {
			ours := in.Children.Deployment.Ours
			return ours == nil || ours.Spec == nil || !equality.Semantic.DeepEqual(ours.Spec.Template, want.Spec.Template)
		}
	}
	return false
}

// rollout reads the Deployment as "kubectl rollout status" does, but an autoscaler's scale-up, or a loss above the class minimum, does
// not make a running workspace less Ready. Source: contract §1.
func (in Input) rollout(d *appsv1.Deployment, replaced bool) verdict {
	minimum, asked, s, was := in.minimum(), ptr.Deref(d.Spec.Replicas, 1), d.Status, in.wasReady()
	if replaced {
		return in.progressing(max(minimum, asked), 0, s.AvailableReplicas)
	}
	observed := s.ObservedGeneration >= d.Generation
	complete := observed && s.UpdatedReplicas == s.Replicas && s.UpdatedReplicas >= minimum
	// A change that was not looked at yet and is not ours is most likely the autoscaler's new count.
	unmoved := !observed && was.Status == metav1.ConditionTrue && was.Reason == v1alpha1.ReasonAvailable && was.ObservedGeneration == in.Workspace.Generation
	if (complete || unmoved) && s.AvailableReplicas >= minimum {
		return verdict{
			metav1.ConditionTrue, v1alpha1.ReasonAvailable,
			fmt.Sprintf("the rollout is complete and at least %s available", count(minimum, "replica is", "replicas are")), false,
		}
	}
	if refused := deploymentCondition(d, appsv1.DeploymentReplicaFailure); refused != nil && refused.Status == corev1.ConditionTrue {
		r := reconcile.Refused("the pods are refused", refused.Message)
		return verdict{metav1.ConditionFalse, r.Reason, r.Message, r.Stalled}
	}
	if t := in.trouble(); t != nil {
		return verdict{metav1.ConditionFalse, t.reason, t.message, false}
	}
	progress := deploymentCondition(d, appsv1.DeploymentProgressing)
	switch {
	case observed && progress != nil && progress.Status == corev1.ConditionFalse:
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonDeadlineExceeded, "the rollout makes no progress: " + progress.Message, false}
	case observed && progress != nil && progress.Reason == "NewReplicaSetAvailable" && s.UpdatedReplicas == s.Replicas && asked >= minimum &&
		was.Status != metav1.ConditionUnknown && was.Reason != v1alpha1.ReasonAsleep && was.Reason != v1alpha1.ReasonWakeFailed:
		// Once a rollout was complete, the Deployment calls it so for ever. Only what was there before is a loss: replicas that a wake
		// or a higher minimum adds are on their way.
		return verdict{
			metav1.ConditionFalse, v1alpha1.ReasonMinimumUnavailable,
			fmt.Sprintf("%d of at least %s available", s.AvailableReplicas, count(minimum, "replica is", "replicas are")), false,
		}
	default:
		return in.progressing(max(minimum, asked), s.UpdatedReplicas, s.AvailableReplicas)
	}
}

// wasReady is the condition Ready as it was.
func (in Input) wasReady() metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(in.Workspace.Status.Conditions, v1alpha1.ConditionReady), metav1.Condition{})
}

func (in Input) progressing(wanted, updated, available int32) verdict {
	return verdict{
		metav1.ConditionUnknown, v1alpha1.ReasonRolloutInProgress,
		fmt.Sprintf("waiting for the rollout: %d of %s updated, %d available", updated, count(wanted, "replica", "replicas"), available), false,
	}
}

func count(n int32, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func deploymentCondition(d *appsv1.Deployment, conditionType appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == conditionType {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// autoscalingActive mirrors the autoscaler's own view. Nil: there is none, or it has not looked yet.
func (in Input) autoscalingActive() *verdict {
	if in.Class == nil || !in.autoscaled() || !in.Children.Autoscaler.Exists() || in.asleep() {
		return nil
	}
	for _, c := range in.Children.Autoscaler.Live.Status.Conditions {
		if c.Type != autoscalingv2.ScalingActive {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return &verdict{metav1.ConditionTrue, v1alpha1.ReasonScalingActive, "the autoscaler computes the replica count", false}
		}
		return &verdict{metav1.ConditionFalse, c.Reason, "autoscaling does not work, the workspace keeps its replicas: " + c.Message, false}
	}
	return nil
}

// Why is the reason and message of a status, for people.
func Why(status v1alpha1.WorkspaceStatus) string {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason + ": " + c.Message
	}
	return ""
}
