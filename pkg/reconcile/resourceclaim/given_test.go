// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// start is when everything happens. The grant was given an hour before.
var start = time.Date(2026, 7, 10, 11, 0, 0, 0, time.UTC)

const clusterName = "jkt-premium-01"

// The keys of the owner, of the owner's next key, and of somebody else.
var (
	ownerKey    = ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize)))
	nextKey     = ed25519.NewKeyFromSeed([]byte(strings.Repeat("n", ed25519.SeedSize)))
	strangerKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", ed25519.SeedSize)))
)

func public(key ed25519.PrivateKey) string {
	return v1alpha1.FormatPublicKey(key.Public().(ed25519.PublicKey))
}

type option func(*resourceclaim.Input)

// given is a version 1 claim that is approved, changed by the options in their order, and signed by the owner unless an option says otherwise.
func given(options ...option) resourceclaim.Input {
	in := resourceclaim.Input{
		Now:      start,
		Settings: resourceclaim.Settings{ClusterName: clusterName, MinGrantVersion: 1, TrustDatastoreKeys: true},
		Claim: &v1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "bank-pg-claim", Namespace: "bank", Generation: 3},
			Spec: v1alpha1.ResourceClaimSpec{
				Datastore: "pg-bank-mandiri", Workspace: "bank-mandiri-prod", Permission: v1alpha1.PermissionReadWrite,
				GrantedBy: "cloud-owner", GrantedAt: "2026-07-10T10:00:00Z",
			},
		},
		Datastore: &v1alpha1.Datastore{
			ObjectMeta: metav1.ObjectMeta{Name: "pg-bank-mandiri", Namespace: "bank"},
			Spec:       v1alpha1.DatastoreSpec{Driver: v1alpha1.DriverPostgres, Owner: "cloud-owner", AllowedTenants: []string{"workspace:bank-mandiri-prod"}},
		},
		WorkspaceExists: true,
		OwnerKeys:       resourceclaim.OwnerKeys{State: resourceclaim.KeysPublished, Entry: public(ownerKey)},
	}
	for _, option := range options {
		option(&in)
	}
	sign(&in)
	return in
}

// sign has the owner sign, unless there is a signature.
func sign(in *resourceclaim.Input) {
	if in.Claim.Spec.Signature == "" {
		signedBy(ownerKey)(in)
	}
}

// both is several options as one.
func both(options ...option) option {
	return func(in *resourceclaim.Input) {
		for _, option := range options {
			option(in)
		}
	}
}

func nothing(*resourceclaim.Input) {}

func at(d time.Duration) option {
	return func(in *resourceclaim.Input) { in.Now = start.Add(d) }
}

func claim(change func(*v1alpha1.ResourceClaim)) option {
	return func(in *resourceclaim.Input) { change(in.Claim) }
}

func spec(change func(*v1alpha1.ResourceClaimSpec)) option {
	return func(in *resourceclaim.Input) { change(&in.Claim.Spec) }
}

func datastore(change func(*v1alpha1.DatastoreSpec)) option {
	return func(in *resourceclaim.Input) { change(&in.Datastore.Spec) }
}

func settings(change func(*resourceclaim.Settings)) option {
	return func(in *resourceclaim.Input) { change(&in.Settings) }
}

// signedBy signs what the claim says at that moment: later changes are not covered. What cannot be signed stays as it is.
func signedBy(key ed25519.PrivateKey) option {
	return func(in *resourceclaim.Input) {
		if signature, err := v1alpha1.SignGrant(in.Claim, in.Settings.ClusterName, key); err == nil {
			in.Claim.Spec.Signature = signature
		}
	}
}

func signature(text string) option {
	return spec(func(s *v1alpha1.ResourceClaimSpec) { s.Signature = text })
}

// unsigned keeps given from signing, and leaves nothing.
func unsigned(in *resourceclaim.Input) { in.Claim.Spec.Signature = " " }

func grantedAt(t time.Time) option {
	return spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantedAt = t.Format(time.RFC3339) })
}

// version2 makes it a grant of version 2, without an end if that is zero.
func version2(expiresAt time.Time) option {
	return spec(func(s *v1alpha1.ResourceClaimSpec) {
		s.GrantVersion = v1alpha1.GrantVersion2
		if !expiresAt.IsZero() {
			s.ExpiresAt = expiresAt.Format(time.RFC3339)
		}
	})
}

func minVersion(v int32) option {
	return settings(func(s *resourceclaim.Settings) { s.MinGrantVersion = v })
}

func skipVerify(in *resourceclaim.Input) { in.Settings.InsecureSkipVerify = true }

func distrust(in *resourceclaim.Input) { in.Settings.TrustDatastoreKeys = false }

func owner(name string) option {
	return datastore(func(s *v1alpha1.DatastoreSpec) { s.Owner = name })
}

func grantedBy(name string) option {
	return spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantedBy = name })
}

func datastoreKey(text string) option {
	return datastore(func(s *v1alpha1.DatastoreSpec) { s.OwnerPublicKey = text })
}

// published is an entry of the ConfigMap with these lines.
func published(lines ...string) option {
	return func(in *resourceclaim.Input) {
		in.OwnerKeys = resourceclaim.OwnerKeys{State: resourceclaim.KeysPublished, Entry: strings.Join(lines, "\n")}
	}
}

func noEntry(in *resourceclaim.Input) {
	in.OwnerKeys = resourceclaim.OwnerKeys{State: resourceclaim.KeysNoEntry}
}

func outage(in *resourceclaim.Input) { in.OwnerKeys = resourceclaim.OwnerKeys{} }

// planned takes the status over from the plan, as the API server would.
func planned(in *resourceclaim.Input) {
	sign(in)
	in.Claim.Status = resourceclaim.Make(*in).Status
}

// rival adds another claim for the pair, granted by the owner at that time.
func rival(name string, at time.Time, options ...option) option {
	return func(in *resourceclaim.Input) {
		other := given(append([]option{claim(func(c *v1alpha1.ResourceClaim) { c.Name = name }), grantedAt(at)}, options...)...)
		in.Rivals = append(in.Rivals, other.Claim)
	}
}

func find(status v1alpha1.ResourceClaimStatus, conditionType string) metav1.Condition {
	if c := meta.FindStatusCondition(status.Conditions, conditionType); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// expectApproved says that the claim is in force.
func expectApproved(t *testing.T, in resourceclaim.Input) resourceclaim.Plan {
	t.Helper()
	plan, verdict := resourceclaim.Make(in), resourceclaim.Judge(in)
	ready, denied, stalled := find(plan.Status, v1alpha1.ConditionReady), find(plan.Status, v1alpha1.ConditionDenied), find(plan.Status, v1alpha1.ConditionStalled)
	if !verdict.Approved || ready.Status != metav1.ConditionTrue || ready.Reason != v1alpha1.ReasonClaimVerified {
		t.Errorf("approved %v, Ready %s %s (%s), want ClaimVerified", verdict.Approved, ready.Status, ready.Reason, ready.Message)
	}
	if denied.Status != metav1.ConditionFalse || stalled.Type != "" {
		t.Errorf("Denied %s, Stalled %s, want False and none", denied.Status, stalled.Status)
	}
	return plan
}

// expectDenied says that nothing is injected, and why.
func expectDenied(t *testing.T, in resourceclaim.Input, reason string, stalls bool, says string) resourceclaim.Plan {
	t.Helper()
	plan, verdict := resourceclaim.Make(in), resourceclaim.Judge(in)
	ready, denied, stalled := find(plan.Status, v1alpha1.ConditionReady), find(plan.Status, v1alpha1.ConditionDenied), find(plan.Status, v1alpha1.ConditionStalled)
	if verdict.Approved || ready.Status != metav1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, says) {
		t.Errorf("approved %v, Ready %s %s (%s), want False %s with %q", verdict.Approved, ready.Status, ready.Reason, ready.Message, reason, says)
	}
	if denied.Status != metav1.ConditionTrue || denied.Reason != reason {
		t.Errorf("Denied %s %s, want True %s", denied.Status, denied.Reason, reason)
	}
	if got := stalled.Status == metav1.ConditionTrue; got != stalls || (got && stalled.Reason != reason) {
		t.Errorf("Stalled %s %s, want it to be there: %v", stalled.Status, stalled.Reason, stalls)
	}
	for _, c := range plan.Status.Conditions {
		if c.ObservedGeneration != in.Claim.Generation {
			t.Errorf("%s is of generation %d, want %d", c.Type, c.ObservedGeneration, in.Claim.Generation)
		}
	}
	return plan
}
