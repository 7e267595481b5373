// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
	"github.com/formspec/formspec-operator/pkg/reconcile/image"
)

// Status is the whole new status.
func Status(in Input) v1alpha1.ClusterClassStatus {
	class := in.Class
	status := *class.Status.DeepCopy()
	status.ObservedGeneration = class.Generation
	status.Workspaces = int32(len(in.Workspaces))
	status.Admitted = int32(in.Admitted)

	set := func(conditionType string, value bool, reason, message string) {
		status.Conditions = condition.Set(status.Conditions, metav1.Condition{
			Type: conditionType, Status: condition.Bool(value), Reason: reason, Message: message, ObservedGeneration: class.Generation,
		}, in.Now)
	}
	problem := in.invalid()
	switch {
	case class.DeletionTimestamp != nil:
		set(v1alpha1.ConditionReady, false, v1alpha1.ReasonTerminating, "the class is being deleted and admits nobody")
	case problem != "":
		set(v1alpha1.ConditionReady, false, v1alpha1.ReasonInvalidSpec, problem)
	default:
		set(v1alpha1.ConditionReady, true, v1alpha1.ReasonAccepted, "workspaces can use the class")
	}
	if problem != "" {
		set(v1alpha1.ConditionStalled, true, v1alpha1.ReasonInvalidSpec, problem)
	} else {
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionStalled)
	}
	if len(in.Workspaces) > 0 {
		set(v1alpha1.ConditionInUse, true, v1alpha1.ReasonInUse, inUse(in.Workspaces))
	} else {
		set(v1alpha1.ConditionInUse, false, v1alpha1.ReasonNotInUse, "no workspace names the class; it can be deleted")
	}
	if names := unenforced(class.Spec); len(names) > 0 {
		set(v1alpha1.ConditionUnenforcedFeatures, true, v1alpha1.ReasonUnenforcedFeatures,
			"handed to the app and to reports, without any other effect here: "+strings.Join(names, ", "))
	} else {
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionUnenforcedFeatures)
	}
	return status
}

// named is how many Workspaces the condition InUse names.
const named = 3

func inUse(workspaces []string) string {
	if len(workspaces) == 1 {
		return "1 workspace names the class, which is deleted after it: " + workspaces[0]
	}
	list := strings.Join(workspaces[:min(named, len(workspaces))], ", ")
	if len(workspaces) > named {
		list += ", …"
	}
	return fmt.Sprintf("%d workspaces name the class, which is deleted after the last of them: %s", len(workspaces), list)
}

// invalid says what no pod can be made from, and what to change. Empty: nothing.
func (in Input) invalid() string {
	class, spec := in.Class, in.Class.Spec
	if problem := class.Annotations[v1alpha1.AnnotationUndecodable]; problem != "" {
		return fmt.Sprintf("the stored class cannot be read: %s. Correct the field", problem)
	}
	switch spec.NodeType {
	case "", v1alpha1.NodeTypeDedicated, v1alpha1.NodeTypeShared, v1alpha1.NodeTypeDev:
	default:
		return fmt.Sprintf("nodeType is %q. Use dedicated, shared or dev, or leave it out", spec.NodeType)
	}
	if spec.MaxWorkspaces < 0 {
		return fmt.Sprintf("maxWorkspaces is %d. Use a number that is not negative; 0 is no limit", spec.MaxWorkspaces)
	}
	if !in.AllowUnpinned && spec.ResourceImage != "" && !image.Pinned(spec.ResourceImage) {
		return fmt.Sprintf("resourceImage %q has no fixed version. Use a version or a digest", spec.ResourceImage)
	}
	return ""
}

// unenforced names what the class promises and the operator does not enforce.
func unenforced(spec v1alpha1.ClusterClassSpec) []string {
	var names []string
	for _, feature := range spec.Features {
		if feature != v1alpha1.FeatureAutoScaling && feature != v1alpha1.FeatureCrossAZFailover {
			names = append(names, feature)
		}
	}
	switch spec.Availability {
	case "", v1alpha1.AvailabilitySingleAZ, v1alpha1.AvailabilityMultiAZ:
	default:
		names = append(names, fmt.Sprintf("availability %q, which counts as %s", spec.Availability, v1alpha1.AvailabilitySingleAZ))
	}
	if spec.SLA != "" {
		names = append(names, "sla")
	}
	if spec.Storage != "" {
		names = append(names, "storage")
	}
	return names
}
