// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package condition

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// Events are what to tell about the step from one status to the next: an object that became Ready, and each new reason for a failure.
// Progress under way is no event.
func Events(before, after []metav1.Condition) []reconcile.Event {
	was := meta.FindStatusCondition(before, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(after, v1alpha1.ConditionReady)
	if is == nil || is.Status == metav1.ConditionUnknown || is.Reason == v1alpha1.ReasonTerminating {
		return nil
	}
	if was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return nil
	}
	eventType := corev1.EventTypeNormal
	if is.Status == metav1.ConditionFalse {
		eventType = corev1.EventTypeWarning
	}
	return []reconcile.Event{{Type: eventType, Reason: is.Reason, Action: "Reconcile", Note: Note(is.Message)}}
}

// maxNote is how many bytes the note of an Event may have: the API server refuses a longer one. Source: events.k8s.io/v1, Event.note.
const maxNote = 1024

// Note is as much of a message as an Event can hold. The condition has all of it.
func Note(message string) string {
	const more = "…"
	if len(message) <= maxNote {
		return message
	}
	return strings.ToValidUTF8(message[:maxNote-len(more)], "") + more
}
