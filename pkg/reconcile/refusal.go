// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Refusal is a write that the API server refused, as a condition shows it.
type Refusal struct {
	// Reason is one of the documented condition reasons.
	Reason string
	// Message says what is wrong and what to change.
	Message string
	// Stalled: nothing changes before a user acts.
	Stalled bool
}

// Refused reads the message with which somebody refused something: the API server a write, or a Deployment its pods.
func Refused(what, message string) Refusal {
	if strings.Contains(message, "exceeded quota") || strings.Contains(message, "failed quota") {
		return Refusal{
			Reason: v1alpha1.ReasonQuotaExceeded, Stalled: true,
			Message: what + ". Raise the namespace's ResourceQuota, or ask for less: " + message,
		}
	}
	if webhook := SilentWebhook(message); webhook != "" {
		return Refusal{
			Reason:  v1alpha1.ReasonRefused,
			Message: fmt.Sprintf("%s, because the admission webhook %q, which has to agree, does not answer. Repair it, or remove its configuration", what, webhook),
		}
	}
	return Refusal{Reason: v1alpha1.ReasonRefused, Stalled: true, Message: what + ". Change the policy, or what it objects to: " + message}
}

// SilentWebhook names the admission webhook that was to be asked and did not answer. Empty: the message is about something else. There is no
// better sign of it than these words, and what follows them is another with every attempt, such as a port.
//
// Source: ErrCallingWebhook in k8s.io/apiserver/pkg/admission/plugin/webhook.
func SilentWebhook(message string) string {
	_, rest, _ := strings.Cut(message, `failed calling webhook "`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// NameConflict is the refusal to touch a foreign object that has the name of a child.
func NameConflict(kind, name string) Refusal {
	return Refusal{
		Reason: v1alpha1.ReasonNameConflict, Stalled: true,
		Message: fmt.Sprintf("%s %q exists and does not belong to this object; it is left alone. Remove or rename it", kind, name),
	}
}
