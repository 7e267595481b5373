// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Verdict is the decision on one claim.
type Verdict struct {
	// Approved: the workspace gets what the claim grants.
	Approved bool
	// Reason is one of the documented condition reasons, Message says what is wrong and what to change.
	Reason, Message string
	// Stalled: nothing changes before a user acts.
	Stalled bool
	// Next is when the clock alone may change the verdict. Zero: never.
	Next time.Time

	unchecked bool // approved without a look at the signature
}

// Ready is the status of the condition Ready: Unknown while an earlier approval stands that cannot be checked.
func (v Verdict) Ready() metav1.ConditionStatus {
	switch {
	case !v.Approved:
		return metav1.ConditionFalse
	case v.Reason == v1alpha1.ReasonOwnerKeysUnavailable:
		return metav1.ConditionUnknown
	default:
		return metav1.ConditionTrue
	}
}

// Judge decides on a claim.
func Judge(in Input) Verdict {
	claims := []*v1alpha1.ResourceClaim{in.Claim}
	for _, rival := range in.Rivals {
		if rival.Namespace == in.Claim.Namespace && rival.Name != in.Claim.Name &&
			rival.Spec.Workspace == in.Claim.Spec.Workspace && rival.Spec.Datastore == in.Claim.Spec.Datastore {
			claims = append(claims, rival)
		}
	}
	return JudgeAll(in, claims)[0]
}

// JudgeAll decides on all claims of one workspace and datastore, in their order, each as Judge would with the others as its rivals. It looks
// at each signature once. Of the input, Claim and Rivals do not count.
func JudgeAll(in Input, claims []*v1alpha1.ResourceClaim) []Verdict {
	verdicts := make([]Verdict, len(claims))
	best := -1
	var next time.Time
	for i, claim := range claims {
		in.Claim = claim
		verdicts[i] = in.alone()
		next = sooner(next, verdicts[i].Next)
		if verdicts[i].Approved && (best < 0 || Outranks(claim, claims[best])) {
			best = i
		}
	}
	for i := range verdicts {
		v := &verdicts[i]
		if !v.Approved {
			continue
		}
		v.Next = next // a rival that starts or ends may change which of them is in force
		if i != best {
			v.Approved, v.Reason, v.Stalled = false, v1alpha1.ReasonSuperseded, true
			v.Message = fmt.Sprintf("ResourceClaim %q, granted at %s, is in force for workspace %q and datastore %q. Delete this claim, or sign it again if it is the one that should be",
				claims[best].Name, claims[best].Spec.GrantedAt, claims[i].Spec.Workspace, claims[i].Spec.Datastore)
		}
	}
	return verdicts
}

// Outranks says whether claim a is in force rather than b: it was granted later, or its name is the first of two that were granted at once.
// Both were verified, so their times can be read. Source: contract §4.
func Outranks(a, b *v1alpha1.ResourceClaim) bool {
	grantedA, _, _ := v1alpha1.GrantValidity(a)
	grantedB, _, _ := v1alpha1.GrantValidity(b)
	return cmp.Or(grantedA.Compare(grantedB), strings.Compare(b.Name, a.Name)) > 0
}

// sooner is the earlier of two times, of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
