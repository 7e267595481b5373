// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// RefusedPods reads the message with which a Deployment says that its pods were refused.
func RefusedPods(message string) Refusal {
	return refuse("the pods are refused", message)
}

// RefusedWrite reads the message with which the API server refused one of our writes.
func RefusedWrite(object, message string) Refusal {
	return refuse(object+" is refused", message)
}

func refuse(what, message string) Refusal {
	if strings.Contains(message, "exceeded quota") || strings.Contains(message, "failed quota") {
		return Refusal{
			Reason: v1alpha1.ReasonQuotaExceeded, Stalled: true,
			Message: what + ". Raise the namespace's ResourceQuota, or ask for less: " + message,
		}
	}
	return Refusal{Reason: v1alpha1.ReasonRefused, Stalled: true, Message: what + ". Change the policy, or what it objects to: " + message}
}
