// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// Plan is what to do about one ResourceClaim. What the Workspace gets is the business of the Workspace's plan.
type Plan struct {
	// Finalizer is added before anything is made, and removed after everything else.
	Finalizer reconcile.Finalizer
	// Ensure makes the claim's own login, with a Fresh password or the one that it has, and Drop drops it, both in the background.
	Ensure *Login
	Fresh  bool
	Drop   *Place
	// Apply is the Secret with the login to write.
	Apply []reconcile.Write
	// Events tell what the conditions do not, once the rest is done.
	Events []reconcile.Event
	// Status is the whole new status.
	Status v1alpha1.ResourceClaimStatus
	// After is when to look again without any event. Zero: never.
	After time.Duration
}

// Make decides what to do about a ResourceClaim.
func Make(in Input) Plan {
	v := Judge(in)
	var p Plan
	if !v.Next.IsZero() {
		p.After = v.Next.Sub(in.Now)
	}
	p.Status = Status(in, v, in.planRole(v, &p))
	return p
}
