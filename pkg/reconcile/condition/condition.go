// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package condition sets status conditions as pure values: the clock comes from the caller.
package condition

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// maxMessage keeps a message that quotes somebody else (a scheduler, a webhook) within what the schema of conditions allows.
const maxMessage = 4096

// Set returns conditions with c added or replacing the one of its type. The transition time moves to now only when the status flips.
func Set(conditions []metav1.Condition, c metav1.Condition, now time.Time) []metav1.Condition {
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "")
	}
	c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	meta.SetStatusCondition(&conditions, c)
	return conditions
}

// Remove returns conditions without the one of that type.
func Remove(conditions []metav1.Condition, conditionType string) []metav1.Condition {
	meta.RemoveStatusCondition(&conditions, conditionType)
	return conditions
}

// Bool is True or False.
func Bool(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// InternalError shows that the operator itself failed on the object.
func InternalError(conditions []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	return Set(conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInternalError, ObservedGeneration: generation,
		Message: "the operator failed on this object and tries again; its log has the details",
	}, now)
}
