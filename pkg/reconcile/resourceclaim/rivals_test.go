// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// later is after the claim's own grant.
var later = start.Add(-time.Minute)

func TestAClaimIsNotSupersededBy(t *testing.T) {
	for name, option := range map[string]option{
		"an earlier grant":                   rival("earlier", start.Add(-2*time.Hour)),
		"one of the same time after it":      rival("z", start.Add(-time.Hour)),
		"a later grant that nobody signed":   rival("later", later, unsigned),
		"a later grant of somebody else":     rival("later", later, signedBy(strangerKey)),
		"a grant of the future":              rival("later", start.Add(time.Hour)),
		"one that has expired":               rival("later", later, version2(start.Add(-time.Second))),
		"one that is being deleted":          rival("later", later, claim(func(c *v1alpha1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: start} })),
		"one for another workspace":          rival("later", later, spec(func(s *v1alpha1.ResourceClaimSpec) { s.Workspace = "other" })),
		"one for another datastore":          rival("later", later, spec(func(s *v1alpha1.ResourceClaimSpec) { s.Datastore = "other" })),
		"one in another namespace":           rival("later", later, claim(func(c *v1alpha1.ResourceClaim) { c.Namespace = "other" })),
		"itself, as an older cache shows it": rival("bank-pg-claim", later),
		"one that is revoked by time":        both(revokedBefore(start.Add(-time.Hour)), rival("older", start.Add(-2*time.Hour))),
	} {
		t.Run(name, func(t *testing.T) { expectApproved(t, given(option)) })
	}
}

func TestOfSeveralValidClaimsTheLatestIsInForce(t *testing.T) {
	for name, options := range map[string][]option{
		"one later grant":              {rival("later", later)},
		"several, in any order":        {rival("b", later.Add(-time.Second)), rival("later", later), rival("a", later.Add(-time.Minute))},
		"the same time in another way": {rival("later", later), rival("z", later, spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantedAt = "2026-07-10T17:59:00+07:00" }))},
		"within the leeway":            {rival("later", start.Add(time.Minute))},
		"by fractions of a second":     {rival("later", later, spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantedAt = "2026-07-10T10:00:00.001Z" }))},
		"granted at once, by name":     {claim(func(c *v1alpha1.ResourceClaim) { c.Name = "m" }), rival("later", start.Add(-time.Hour)), rival("n", start.Add(-time.Hour))},
	} {
		t.Run(name, func(t *testing.T) {
			expectDenied(t, given(options...), v1alpha1.ReasonSuperseded, true, `ResourceClaim "later"`)
		})
	}
}

func TestASupersededClaimTakesOverWhenTheOtherEnds(t *testing.T) {
	in := given(rival("later", later, version2(start.Add(time.Hour))))
	plan := expectDenied(t, in, v1alpha1.ReasonSuperseded, true, "")
	if plan.After != time.Hour {
		t.Fatalf("again after %s, want the end of the other", plan.After)
	}
	in.Now = in.Now.Add(plan.After)
	expectApproved(t, in)
}

func TestAClaimIsSupersededWhenTheOtherStarts(t *testing.T) {
	in := given(rival("later", start.Add(10*time.Minute)))
	plan := expectApproved(t, in)
	if plan.After != 9*time.Minute {
		t.Fatalf("again after %s, want the start of the other", plan.After)
	}
	in.Now = in.Now.Add(plan.After)
	expectDenied(t, in, v1alpha1.ReasonSuperseded, true, "")
}

func TestAtEachMomentOneClaimOfAPairIsInForceWhoeverIsAsked(t *testing.T) {
	in := given(
		rival("c1", start.Add(-2*time.Hour)), rival("c2", start.Add(-time.Hour)), rival("c3", later, version2(start.Add(time.Hour))),
		rival("c4", start.Add(30*time.Minute)), rival("c5", later, signedBy(strangerKey)),
	)
	all := append([]*v1alpha1.ResourceClaim{in.Claim}, in.Rivals...)
	for minute := 0; minute < 90; minute += 3 {
		in.Now = start.Add(time.Duration(minute) * time.Minute)
		together := resourceclaim.JudgeAll(in, all)
		approved := 0
		for i, c := range all {
			single := in
			single.Claim, single.Rivals = c, all
			v := resourceclaim.Judge(single)
			if v.Approved {
				approved++
			}
			if v != together[i] {
				t.Errorf("minute %d: %s alone %+v, together %+v", minute, c.Name, v, together[i])
			}
		}
		if approved != 1 {
			t.Errorf("minute %d: %d claims are in force, want 1", minute, approved)
		}
	}
}

func TestTheOrderOfTheRivalsDoesNotMatter(t *testing.T) {
	in := given(rival("a", later), rival("b", later), rival("c", start.Add(-time.Hour)))
	want := resourceclaim.Judge(in)
	slices.Reverse(in.Rivals)
	if got := resourceclaim.Judge(in); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
