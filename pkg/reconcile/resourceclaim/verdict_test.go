// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

func TestWhatIsApproved(t *testing.T) {
	for name, option := range map[string]option{
		"a grant of version 1":                                     nothing,
		"a grant of version 1 that says so":                        spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantVersion = 1 }),
		"a grant of version 2":                                     version2(time.Time{}),
		"a grant of version 2 where no other is accepted":          both(version2(start.Add(time.Hour)), minVersion(2)),
		"a grant that does not say who gave it":                    grantedBy(""),
		"a grant of a datastore that does not say whose it is":     both(owner(""), datastoreKey(public(ownerKey)), noEntry),
		"the same while the published keys cannot be read":         both(owner(""), datastoreKey(public(ownerKey)), outage),
		"signed with the key in the Datastore":                     both(datastoreKey(public(ownerKey)+"\n"), noEntry),
		"signed with the second of two keys":                       published("# old", public(nextKey), "# new", public(ownerKey)),
		"signed with a good key next to a bad line":                published("nonsense", public(ownerKey)),
		"signed with the published key, not that in the Datastore": datastoreKey(public(strangerKey)),
		"every workspace is allowed":                               datastore(func(s *v1alpha1.DatastoreSpec) { s.AllowedTenants = []string{"workspace:other", "*"} }),
		"granted exactly when revocation starts":                   revokedBefore(start.Add(-time.Hour)),
		"the signature is in upper case and ends in a newline": both(signedBy(ownerKey), spec(func(s *v1alpha1.ResourceClaimSpec) {
			s.Signature = strings.ToUpper(s.Signature) + "\n"
		})),
		"the longest name":           both(datastoreNamed(names.LongestDatastore), signedBy(ownerKey)),
		"nobody looks at signatures": both(skipVerify, signature("hex-encoded-ed25519"), noEntry),
		"no version is the minimum":  minVersion(0),
	} {
		t.Run(name, func(t *testing.T) { expectApproved(t, given(option)) })
	}
}

func revokedBefore(t time.Time) option {
	return datastore(func(s *v1alpha1.DatastoreSpec) { s.GrantsNotBefore = &metav1.Time{Time: t} })
}

// denials are every reason for which nothing is injected.
var denials = map[string]struct {
	given   option
	reason  string
	stalled bool
	says    string
}{
	"there is no such datastore":        {func(in *resourceclaim.Input) { in.Datastore = nil }, v1alpha1.ReasonDatastoreNotFound, false, `no Datastore "pg-bank-mandiri"`},
	"the datastore is being deleted":    {func(in *resourceclaim.Input) { in.Datastore.DeletionTimestamp = &metav1.Time{Time: start} }, v1alpha1.ReasonDatastoreNotFound, false, "is being deleted"},
	"the claim is being deleted":        {claim(func(c *v1alpha1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: start} }), v1alpha1.ReasonTerminating, false, ""},
	"there is no such workspace":        {noWorkspace, v1alpha1.ReasonWorkspaceNotFound, false, `waits for Workspace "bank-mandiri-prod"`},
	"its name is too long":              {datastoreNamed(names.LongestDatastore + 1), v1alpha1.ReasonNameTooLong, true, "has 224 characters"},
	"somebody else grants":              {grantedBy("mallory"), v1alpha1.ReasonGrantorNotOwner, true, `spec.grantedBy is "mallory" and the owner of Datastore "pg-bank-mandiri" is "cloud-owner"`},
	"version 1 where 2 is the minimum":  {minVersion(2), v1alpha1.ReasonGrantVersionRefused, true, "Sign the claim as version 2"},
	"an unknown version":                {both(signedBy(ownerKey), spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantVersion = 3 })), v1alpha1.ReasonGrantVersionRefused, true, "is 3"},
	"version 2 on a nameless cluster":   {both(version2(time.Time{}), signedBy(ownerKey), cluster("")), v1alpha1.ReasonGrantVersionRefused, true, "--cluster-name"},
	"no signature":                      {unsigned, v1alpha1.ReasonMissingSignature, true, "formspec-operator grant sign"},
	"the placeholder of the documents":  {signature("hex-encoded-ed25519"), v1alpha1.ReasonInvalidSignature, true, "128 hex digits"},
	"a separator in a field":            {both(signedBy(ownerKey), both(grantedBy("a|b"), owner("a|b"))), v1alpha1.ReasonInvalidSignature, true, `spec.grantedBy is "a|b"`},
	"an end in version 1":               {both(signedBy(ownerKey), spec(func(s *v1alpha1.ResourceClaimSpec) { s.ExpiresAt = "2027-01-01T00:00:00Z" })), v1alpha1.ReasonInvalidSignature, true, "spec.grantVersion: 2"},
	"no permission":                     {both(signedBy(ownerKey), spec(func(s *v1alpha1.ResourceClaimSpec) { s.Permission = "" })), v1alpha1.ReasonInvalidSpec, true, "spec.permission"},
	"no time":                           {both(signedBy(ownerKey), spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantedAt = "" })), v1alpha1.ReasonInvalidSpec, true, "spec.grantedAt"},
	"a time without a zone":             {both(signedBy(ownerKey), spec(func(s *v1alpha1.ResourceClaimSpec) { s.GrantedAt = "2026-07-10T10:00:00" })), v1alpha1.ReasonInvalidSpec, true, "RFC 3339"},
	"no key, no owner":                  {both(owner(""), noEntry), v1alpha1.ReasonMissingOwnerKey, true, "names no owner"},
	"no key is known":                   {noEntry, v1alpha1.ReasonMissingOwnerKey, true, `no key is known for "cloud-owner"`},
	"no key can be published":           {both(owner("cloud owner"), grantedBy(""), noEntry), v1alpha1.ReasonMissingOwnerKey, true, "none can be published under that name"},
	"a key that is not trusted":         {both(noEntry, distrust, datastoreKey(public(ownerKey))), v1alpha1.ReasonMissingOwnerKey, true, "--trust-datastore-keys=false"},
	"every published key is revoked":    {published("# " + public(ownerKey)), v1alpha1.ReasonMissingOwnerKey, true, "all are revoked"},
	"an empty entry hides another key":  {both(published(""), datastoreKey(public(ownerKey))), v1alpha1.ReasonMissingOwnerKey, true, "all are revoked"},
	"the published key is bad":          {published("nonsense"), v1alpha1.ReasonInvalidOwnerKey, true, "line 1 is not 64 hex digits"},
	"a bad line may be the right key":   {published(public(nextKey), "nonsense"), v1alpha1.ReasonInvalidOwnerKey, true, "line 2"},
	"the published key is all zero":     {published(strings.Repeat("0", 64)), v1alpha1.ReasonInvalidOwnerKey, true, "low order"},
	"the Datastore's key is bad":        {both(noEntry, datastoreKey("nonsense")), v1alpha1.ReasonInvalidOwnerKey, true, "spec.ownerPublicKey"},
	"signed by somebody else":           {signedBy(strangerKey), v1alpha1.ReasonSignatureMismatch, true, `"pg-bank-mandiri|bank-mandiri-prod|read-write|cloud-owner|2026-07-10T10:00:00Z"`},
	"the published key wins":            {both(signedBy(strangerKey), datastoreKey(public(strangerKey))), v1alpha1.ReasonSignatureMismatch, true, ""},
	"the Datastore's key did not sign":  {both(noEntry, signedBy(strangerKey), datastoreKey(public(ownerKey))), v1alpha1.ReasonSignatureMismatch, true, ""},
	"its key is revoked, another stays": {published(public(nextKey)), v1alpha1.ReasonSignatureMismatch, true, "1 known"},
	"more than what was signed":         {both(spec(func(s *v1alpha1.ResourceClaimSpec) { s.Permission = v1alpha1.PermissionReadOnly }), signedBy(ownerKey), spec(func(s *v1alpha1.ResourceClaimSpec) { s.Permission = v1alpha1.PermissionReadWrite })), v1alpha1.ReasonSignatureMismatch, true, ""},
	"signed for another namespace":      {both(version2(time.Time{}), signedBy(ownerKey), claim(func(c *v1alpha1.ResourceClaim) { c.Namespace = "other" })), v1alpha1.ReasonSignatureMismatch, true, "|other|"},
	"signed for another cluster":        {both(version2(time.Time{}), signedBy(ownerKey), cluster("other")), v1alpha1.ReasonSignatureMismatch, true, "|other|"},
	"an end that was moved":             {both(version2(start.Add(time.Hour)), signedBy(ownerKey), version2(start.Add(2*time.Hour))), v1alpha1.ReasonSignatureMismatch, true, ""},
	"an end that was removed":           {both(version2(start.Add(time.Hour)), signedBy(ownerKey), spec(func(s *v1alpha1.ResourceClaimSpec) { s.ExpiresAt = "" })), v1alpha1.ReasonSignatureMismatch, true, ""},
	"revoked by time":                   {revokedBefore(start.Add(-time.Hour + time.Second)), v1alpha1.ReasonGrantRevoked, true, "is of 2026-07-10T10:00:00Z"},
	"expired":                           {version2(start), v1alpha1.ReasonExpired, true, "expired at 2026-07-10T11:00:00Z"},
	"expired before time began":         {both(version2(time.Time{}), spec(func(s *v1alpha1.ResourceClaimSpec) { s.ExpiresAt = "0001-01-01T00:00:00Z" })), v1alpha1.ReasonExpired, true, ""},
	"not yet valid":                     {grantedAt(start.Add(10 * time.Minute)), v1alpha1.ReasonNotYetValid, false, "not yet valid until 2026-07-10T11:10:00Z"},
	"no tenant is allowed":              {tenants(), v1alpha1.ReasonTenantNotAllowed, true, `does not have "workspace:bank-mandiri-prod"`},
	"other tenants are allowed":         {tenants("workspace:bank", "bank-mandiri-prod", "workspace:*", ""), v1alpha1.ReasonTenantNotAllowed, true, ""},
	"the keys cannot be read":           {outage, v1alpha1.ReasonOwnerKeysUnavailable, false, "formspec-owner-keys is absent"},
	"the same, with another key":        {both(outage, datastoreKey(public(ownerKey))), v1alpha1.ReasonOwnerKeysUnavailable, false, ""},
	"a later grant is in force":         {rival("later", start.Add(-time.Minute)), v1alpha1.ReasonSuperseded, true, `ResourceClaim "later", granted at 2026-07-10T10:59:00Z`},
	"skipping signatures skips no more": {both(skipVerify, unsigned, tenants()), v1alpha1.ReasonTenantNotAllowed, true, ""},
}

func datastoreNamed(length int) option {
	return spec(func(s *v1alpha1.ResourceClaimSpec) { s.Datastore = strings.Repeat("a", length) })
}

func noWorkspace(in *resourceclaim.Input) { in.WorkspaceExists = false }

func cluster(name string) option {
	return settings(func(s *resourceclaim.Settings) { s.ClusterName = name })
}

func tenants(allowed ...string) option {
	return datastore(func(s *v1alpha1.DatastoreSpec) { s.AllowedTenants = allowed })
}

func TestEveryReasonForWhichNothingIsInjected(t *testing.T) {
	for name, row := range denials {
		t.Run(name, func(t *testing.T) { expectDenied(t, given(row.given), row.reason, row.stalled, row.says) })
	}
}

func TestADenialThatIsGoneLeavesNothingBehind(t *testing.T) {
	for name, row := range denials {
		t.Run(name, func(t *testing.T) {
			in := given()
			in.Claim.Status = given(row.given, planned).Claim.Status
			expectApproved(t, in)
		})
	}
}

func TestAnApprovalEndsWithItsGround(t *testing.T) {
	for name, row := range denials {
		if row.reason == v1alpha1.ReasonOwnerKeysUnavailable {
			continue // an outage does not end it
		}
		t.Run(name, func(t *testing.T) {
			in := given(row.given)
			in.Claim.Status = given(planned).Claim.Status
			expectDenied(t, in, row.reason, row.stalled, row.says)
		})
	}
}

func TestTheMostTellingReasonIsTold(t *testing.T) {
	// Each one together with all that follow it.
	order := []struct {
		fault  option
		reason string
	}{
		{func(in *resourceclaim.Input) { in.Datastore = nil }, v1alpha1.ReasonDatastoreNotFound},
		{datastoreNamed(names.LongestDatastore + 1), v1alpha1.ReasonNameTooLong},
		{grantedBy("mallory"), v1alpha1.ReasonGrantorNotOwner},
		{minVersion(2), v1alpha1.ReasonGrantVersionRefused},
		{unsigned, v1alpha1.ReasonMissingSignature},
		{signature("hex-encoded-ed25519"), v1alpha1.ReasonInvalidSignature},
		{spec(func(s *v1alpha1.ResourceClaimSpec) { s.Permission = "admin" }), v1alpha1.ReasonInvalidSpec},
		{noEntry, v1alpha1.ReasonMissingOwnerKey},
		{signedBy(strangerKey), v1alpha1.ReasonSignatureMismatch},
		{revokedBefore(start.Add(time.Hour)), v1alpha1.ReasonGrantRevoked},
		{tenants(), v1alpha1.ReasonTenantNotAllowed},
		{grantedAt(start.Add(time.Minute + time.Second)), v1alpha1.ReasonNotYetValid},
		{noWorkspace, v1alpha1.ReasonWorkspaceNotFound},
		{rival("later", start.Add(2*time.Minute)), ""},
	}
	for i, row := range order {
		if row.reason == "" {
			continue
		}
		t.Run(row.reason, func(t *testing.T) {
			var faults []option
			for j := len(order) - 1; j >= i; j-- {
				faults = append(faults, order[j].fault)
			}
			if got := resourceclaim.Judge(given(faults...)); got.Reason != row.reason {
				t.Errorf("reason %s (%s), want %s", got.Reason, got.Message, row.reason)
			}
		})
	}
}

func TestLookingUpAnOwnersKeys(t *testing.T) {
	configMap := &corev1.ConfigMap{
		Data:       map[string]string{"cloud-owner": "abc", "empty": ""},
		BinaryData: map[string][]byte{"binary": {0xff, 0xfe}},
	}
	for name, row := range map[string]struct {
		configMap *corev1.ConfigMap
		owner     string
		want      resourceclaim.OwnerKeys
	}{
		"no ConfigMap":         {nil, "cloud-owner", resourceclaim.OwnerKeys{State: resourceclaim.KeysUnavailable}},
		"an empty ConfigMap":   {&corev1.ConfigMap{}, "cloud-owner", resourceclaim.OwnerKeys{State: resourceclaim.KeysNoEntry}},
		"an entry":             {configMap, "cloud-owner", resourceclaim.OwnerKeys{State: resourceclaim.KeysPublished, Entry: "abc"}},
		"an empty entry":       {configMap, "empty", resourceclaim.OwnerKeys{State: resourceclaim.KeysPublished}},
		"what is not text":     {configMap, "binary", resourceclaim.OwnerKeys{State: resourceclaim.KeysPublished, Entry: "\xff\xfe"}},
		"nothing for the name": {configMap, "other", resourceclaim.OwnerKeys{State: resourceclaim.KeysNoEntry}},
	} {
		if got := resourceclaim.LookUp(row.configMap, row.owner); got != row.want {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}
