// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Plan is what to do about one ResourceClaim. The credentials are the business of the Workspace's plan.
type Plan struct {
	// Status is the whole new status.
	Status v1alpha1.ResourceClaimStatus
	// After is when to look again without any event. Zero: never.
	After time.Duration
}

// Make decides what to do about a ResourceClaim.
func Make(in Input) Plan {
	v := Judge(in)
	p := Plan{Status: Status(in, v)}
	if !v.Next.IsZero() {
		p.After = v.Next.Sub(in.Now)
	}
	return p
}
