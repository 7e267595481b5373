// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// RefusalRetry is how soon a refused write is tried again: nobody tells us that a quota was raised, a policy removed or a name freed.
const RefusalRetry = 30 * time.Second

// Refusal is what a failed write says about its object. Nil: nothing, it is a fault that passes.
func Refusal(err error) *reconcile.Refusal {
	var taken *NameTakenError
	switch {
	case errors.As(err, &taken):
		return new(reconcile.NameConflict(taken.Kind, taken.Name))
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		apierrors.IsInternalError(err) && reconcile.SilentWebhook(err.Error()) != "":
		return new(reconcile.Refused("a write is refused", err.Error()))
	default:
		return nil
	}
}
