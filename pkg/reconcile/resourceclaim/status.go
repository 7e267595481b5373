// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
)

// Status is the whole new status, which shows the verdict, and how the claim's own login is. Nil: it has none.
func Status(in Input, v Verdict, role *metav1.Condition) v1alpha1.ResourceClaimStatus {
	status := *in.Claim.Status.DeepCopy()
	status.ObservedGeneration = in.Claim.Generation
	set := func(conditionType string, value metav1.ConditionStatus, reason string) {
		status.Conditions = condition.Set(status.Conditions, metav1.Condition{
			Type: conditionType, Status: value, Reason: reason, Message: v.Message, ObservedGeneration: in.Claim.Generation,
		}, in.Now)
	}
	status.VerifiedOwner = in.verifiedOwner(v)
	set(v1alpha1.ConditionReady, v.Ready(), v.Reason)
	if v.unchecked && v.Approved {
		set(v1alpha1.ConditionDenied, metav1.ConditionFalse, v1alpha1.ReasonSignatureNotChecked)
	} else {
		set(v1alpha1.ConditionDenied, condition.Bool(!v.Approved), v.Reason)
	}
	if v.Stalled {
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, v.Reason)
	} else {
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionStalled)
	}
	if role != nil {
		role.Type, role.ObservedGeneration = v1alpha1.ConditionRoleReady, in.Claim.Generation
		status.Conditions = condition.Set(status.Conditions, *role, in.Now)
	} else {
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionRoleReady)
	}
	return status
}

// verifiedOwner is the owner whose signature was verified, now or before an outage of the keys.
func (in Input) verifiedOwner(v Verdict) string {
	if !v.Approved || v.unchecked {
		return ""
	}
	return in.Datastore.Spec.Owner
}
