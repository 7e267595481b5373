// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

func TestClocksThatDiffer(t *testing.T) {
	for name, row := range map[string]struct {
		given  option
		reason string
		after  time.Duration
	}{
		"granted 5 s in the future":                         {grantedAt(start.Add(5 * time.Second)), v1alpha1.ReasonClaimVerified, 0},
		"granted as far in the future as the leeway allows": {grantedAt(start.Add(time.Minute)), v1alpha1.ReasonClaimVerified, 0},
		"a second more":                                     {grantedAt(start.Add(61 * time.Second)), v1alpha1.ReasonNotYetValid, time.Second},
		"granted 10 minutes in the future":                  {grantedAt(start.Add(10 * time.Minute)), v1alpha1.ReasonNotYetValid, 9 * time.Minute},
		"expired 5 s ago":                                   {version2(start.Add(-5 * time.Second)), v1alpha1.ReasonExpired, 0},
		"expires now":                                       {version2(start), v1alpha1.ReasonExpired, 0},
		"expires in a second":                               {version2(start.Add(time.Second)), v1alpha1.ReasonClaimVerified, time.Second},
		"expires in two minutes":                            {version2(start.Add(2 * time.Minute)), v1alpha1.ReasonClaimVerified, 2 * time.Minute},
		"starts in 10 minutes and ends in 20":               {both(version2(start.Add(20*time.Minute)), grantedAt(start.Add(10*time.Minute))), v1alpha1.ReasonNotYetValid, 9 * time.Minute},
		"ended before it started":                           {both(version2(start.Add(-time.Second)), grantedAt(start.Add(10*time.Minute))), v1alpha1.ReasonExpired, 9 * time.Minute},
		"never expires":                                     {version2(time.Time{}), v1alpha1.ReasonClaimVerified, 0},
		"waits for its workspace and expires":               {both(version2(start.Add(time.Minute)), noWorkspace), v1alpha1.ReasonWorkspaceNotFound, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			plan := resourceclaim.Make(given(row.given))
			ready := find(plan.Status, v1alpha1.ConditionReady)
			if ready.Reason != row.reason || plan.After != row.after {
				t.Errorf("%s (%s), again after %s, want %s after %s", ready.Reason, ready.Message, plan.After, row.reason, row.after)
			}
		})
	}
}

func TestAGrantStartsAndEndsOnTimeWithoutAnyEdit(t *testing.T) {
	in := given(version2(start.Add(20*time.Minute)), grantedAt(start.Add(10*time.Minute)))
	var got []string
	for range 5 {
		plan := resourceclaim.Make(in)
		in.Claim.Status = plan.Status
		ready := find(plan.Status, v1alpha1.ConditionReady)
		got = append(got, in.Now.Format("15:04:05 ")+ready.Reason)
		if !ready.LastTransitionTime.Time.Equal(in.Now) {
			t.Errorf("%s since %s, want since %s", ready.Reason, ready.LastTransitionTime.UTC(), in.Now)
		}
		if plan.After == 0 {
			break
		}
		in.Now = in.Now.Add(plan.After)
	}
	want := []string{"11:00:00 NotYetValid", "11:09:00 ClaimVerified", "11:20:00 Expired"}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAVerdictDoesNotChangeWithinItsTime(t *testing.T) {
	in := given(version2(start.Add(20*time.Minute)), grantedAt(start.Add(10*time.Minute)), rival("later", start.Add(15*time.Minute)))
	for {
		plan := resourceclaim.Make(in)
		if plan.After == 0 {
			return
		}
		last := in
		last.Now = in.Now.Add(plan.After - time.Nanosecond)
		if before, after := resourceclaim.Judge(in), resourceclaim.Judge(last); before.Reason != after.Reason || before.Message != after.Message {
			t.Errorf("at %s %s (%s), at %s %s (%s), want no change", in.Now, before.Reason, before.Message, last.Now, after.Reason, after.Message)
		}
		in.Now = in.Now.Add(plan.After)
	}
}

func TestASteadyStatusIsTheSame(t *testing.T) {
	for name, row := range denials {
		t.Run(name, func(t *testing.T) {
			in := given(row.given, planned)
			before := in.Claim.Status
			in.Now = in.Now.Add(time.Nanosecond)
			for i, c := range resourceclaim.Make(in).Status.Conditions {
				if c != before.Conditions[i] {
					t.Errorf("%+v, want %+v", c, before.Conditions[i])
				}
			}
		})
	}
}

func TestTransitionTimesMoveOnlyWhenAStatusFlips(t *testing.T) {
	in := given(planned)
	for _, step := range []struct {
		name   string
		change option
		flips  bool
	}{
		{"nothing", nothing, false},
		{"revoked", published(public(nextKey)), true},
		{"another reason", tenants(), false},
		{"back", both(published(public(ownerKey)), tenants("*")), true},
	} {
		in.Now = in.Now.Add(time.Hour)
		step.change(&in)
		before := find(in.Claim.Status, v1alpha1.ConditionDenied).LastTransitionTime
		planned(&in)
		if moved := find(in.Claim.Status, v1alpha1.ConditionDenied).LastTransitionTime != before; moved != step.flips {
			t.Errorf("%s: the transition time moved: %v, want %v", step.name, moved, step.flips)
		}
	}
}

func TestAnOutageChangesNothingForVerifiedClaims(t *testing.T) {
	held := func(t *testing.T, in resourceclaim.Input) {
		t.Helper()
		verdict, status := resourceclaim.Judge(in), resourceclaim.Make(in).Status
		ready, denied := find(status, v1alpha1.ConditionReady), find(status, v1alpha1.ConditionDenied)
		if !verdict.Approved || ready.Status != metav1.ConditionUnknown || ready.Reason != v1alpha1.ReasonOwnerKeysUnavailable ||
			denied.Status != metav1.ConditionFalse || find(status, v1alpha1.ConditionStalled).Type != "" {
			t.Errorf("approved %v with %+v, want it held, Ready Unknown", verdict.Approved, status.Conditions)
		}
	}
	t.Run("they stay in force, however often that is decided", func(t *testing.T) {
		in := given(planned, outage)
		held(t, in)
		planned(&in)
		held(t, in)
		planned(&in)
		held(t, in)
		published(public(ownerKey))(&in)
		expectApproved(t, in)
	})
	t.Run("a claim that was verified with the Datastore's key stays in force", func(t *testing.T) {
		held(t, given(noEntry, datastoreKey(public(ownerKey)), planned, outage))
	})
	t.Run("the latest of two stays in force", func(t *testing.T) {
		in := given(planned, rival("later", start.Add(-time.Minute)), outage)
		held(t, in) // the rival was never verified
	})
	t.Run("a claim that names no grantor stays in force, for the owner who signed it", func(t *testing.T) {
		nobody := spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantedBy = "" })
		in := given(nobody, signedBy(ownerKey), planned, outage)
		held(t, in)
		planned(&in)
		owner("another")(&in)
		expectDenied(t, in, v1alpha1.ReasonOwnerKeysUnavailable, false, "")
		planned(&in)
		owner("cloud-owner")(&in) // what was withdrawn is verified again before it is given back
		expectDenied(t, in, v1alpha1.ReasonOwnerKeysUnavailable, false, "")
		if in.Claim.Status.VerifiedOwner != "" {
			t.Errorf("the status says that %q was verified", in.Claim.Status.VerifiedOwner)
		}
	})
	t.Run("nobody looks at signatures: there is no outage", func(t *testing.T) {
		expectApproved(t, given(skipVerify, outage))
	})
	for name, row := range map[string]struct {
		change option
		reason string
		stalls bool
	}{
		"but not an edited one":                  {claim(func(c *v1alpha1.ResourceClaim) { c.Generation++ }), v1alpha1.ReasonOwnerKeysUnavailable, false},
		"but not past its end":                   {at(time.Hour), v1alpha1.ReasonExpired, true},
		"but not a tenant that was crossed out":  {tenants(), v1alpha1.ReasonTenantNotAllowed, true},
		"but not what is revoked by time":        {revokedBefore(start), v1alpha1.ReasonGrantRevoked, true},
		"but not for another owner":              {owner("other"), v1alpha1.ReasonGrantorNotOwner, true},
		"but not where a later version is asked": {minVersion(3), v1alpha1.ReasonGrantVersionRefused, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(version2(start.Add(time.Hour)), signedBy(ownerKey), planned, outage, row.change)
			expectDenied(t, in, row.reason, row.stalls, "")
			planned(&in)
			in.Now = start
			if row.reason == v1alpha1.ReasonOwnerKeysUnavailable {
				expectDenied(t, in, row.reason, row.stalls, "") // and stays out
			}
		})
	}
	t.Run("but not one whose signature nobody looked at", func(t *testing.T) {
		in := given(skipVerify, unsigned, planned, signature("00"), outage)
		if in.Claim.Status.VerifiedOwner != "" {
			t.Errorf("the status says that %q was verified", in.Claim.Status.VerifiedOwner)
		}
		in.Settings.InsecureSkipVerify = false
		in.Claim.Spec.Signature = given().Claim.Spec.Signature
		expectDenied(t, in, v1alpha1.ReasonOwnerKeysUnavailable, false, "")
	})
}
