// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// The key pair of test 1 in RFC 8032, and what openssl signed with it.
const (
	seed       = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
	publicKey  = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	signature1 = "5f4cea4716f5329865db33fa74d7dfd83b80b8f91adbc80ba206d3326dcb7775de7c27a872f3f953cb694a45d992f22c450dd154f6af2c0727e7e6345e14ed06"
	signature2 = "c52497d4ba80cfc6d7bf43d4b73e75d79904cf5e1f86632622d7913a3c6480bd59ae92130cb8f9e6419378498c959ecbcf9eeb3f42bd3c5a5d95afdc60796d0a"
)

func privateKey(tb testing.TB) ed25519.PrivateKey {
	tb.Helper()
	b, err := hex.DecodeString(seed)
	if err != nil {
		tb.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(b)
}

func parseKey(t *testing.T, text string) ed25519.PublicKey {
	t.Helper()
	key, err := v1alpha1.ParsePublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const clusterName = "jkt-premium-01"

func version1() *v1alpha1.ResourceClaim {
	return &v1alpha1.ResourceClaim{Spec: v1alpha1.ResourceClaimSpec{
		Datastore: "pg-bank-mandiri", Workspace: "bank-mandiri-prod", Permission: v1alpha1.PermissionReadWrite,
		GrantedBy: "cloud-owner", GrantedAt: "2026-07-10T10:00:00Z", Signature: signature1,
	}}
}

func version2() *v1alpha1.ResourceClaim {
	return &v1alpha1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "bank"}, Spec: v1alpha1.ResourceClaimSpec{
		Datastore: "pg-bank-mandiri", Workspace: "bank-mandiri-prod", Permission: v1alpha1.PermissionReadOnly,
		GrantedBy: "cloud-owner", GrantedAt: "2026-07-10T10:00:00Z", Signature: signature2, GrantVersion: 2, ExpiresAt: "2027-07-10T10:00:00Z",
	}}
}

// signed is a version 1 claim with that signature.
func signed(signature string) *v1alpha1.ResourceClaim {
	claim := version1()
	claim.Spec.Signature = signature
	return claim
}

func reasonOf(err error) string {
	if reason := v1alpha1.GrantReason(err); err == nil || reason != "" {
		return reason
	}
	return "none, for " + err.Error()
}

func TestTheMessagesAreSignedAsOpensslSignsThem(t *testing.T) {
	for name, row := range map[string]struct {
		claim     *v1alpha1.ResourceClaim
		message   string
		signature string
	}{
		"version 1": {version1(), "pg-bank-mandiri|bank-mandiri-prod|read-write|cloud-owner|2026-07-10T10:00:00Z", signature1},
		"version 2": {version2(), "formspec-grant/2|jkt-premium-01|bank|pg-bank-mandiri|bank-mandiri-prod|read-only|cloud-owner|2026-07-10T10:00:00Z|2027-07-10T10:00:00Z", signature2},
	} {
		t.Run(name, func(t *testing.T) {
			message, err := v1alpha1.GrantMessage(row.claim, clusterName)
			if err != nil || string(message) != row.message {
				t.Errorf("message %q, %v, want %q", message, err, row.message)
			}
			signature, err := v1alpha1.SignGrant(row.claim, clusterName, privateKey(t))
			if err != nil || signature != row.signature {
				t.Errorf("signature %s, %v, want %s", signature, err, row.signature)
			}
			for _, text := range []string{row.signature, strings.ToUpper(row.signature), " " + row.signature + "\n"} {
				row.claim.Spec.Signature = text
				if err := v1alpha1.VerifyGrant(row.claim, clusterName, parseKey(t, publicKey)); err != nil {
					t.Errorf("%q does not verify: %v", text, err)
				}
			}
		})
	}
}

func TestAVersion2GrantWithoutAnEndHasAnEmptyLastField(t *testing.T) {
	claim := version2()
	claim.Spec.ExpiresAt = ""
	message, err := v1alpha1.GrantMessage(claim, clusterName)
	if want := "|2026-07-10T10:00:00Z|"; err != nil || !strings.HasSuffix(string(message), want) {
		t.Errorf("message %q, %v, want one that ends in %q", message, err, want)
	}
}

func TestWhatHasNoMessage(t *testing.T) {
	for name, row := range map[string]struct {
		claim  *v1alpha1.ResourceClaim
		change func(*v1alpha1.ResourceClaim)
		reason string
		says   string
	}{
		"a separator in the datastore":        {version1(), func(c *v1alpha1.ResourceClaim) { c.Spec.Datastore = "a|b" }, v1alpha1.ReasonInvalidSignature, `spec.datastore is "a|b"`},
		"a separator in the workspace":        {version1(), func(c *v1alpha1.ResourceClaim) { c.Spec.Workspace = "|" }, v1alpha1.ReasonInvalidSignature, "spec.workspace"},
		"a separator in the permission":       {version1(), func(c *v1alpha1.ResourceClaim) { c.Spec.Permission = "a|" }, v1alpha1.ReasonInvalidSignature, "spec.permission"},
		"a separator in the owner's name":     {version1(), func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedBy = "x|y" }, v1alpha1.ReasonInvalidSignature, "spec.grantedBy"},
		"a separator in the time":             {version1(), func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "1|" }, v1alpha1.ReasonInvalidSignature, "spec.grantedAt"},
		"a separator in the end":              {version2(), func(c *v1alpha1.ResourceClaim) { c.Spec.ExpiresAt = "1|" }, v1alpha1.ReasonInvalidSignature, "spec.expiresAt"},
		"a separator in the namespace":        {version2(), func(c *v1alpha1.ResourceClaim) { c.Namespace = "1|" }, v1alpha1.ReasonInvalidSignature, "metadata.namespace"},
		"an end that version 1 does not sign": {version1(), func(c *v1alpha1.ResourceClaim) { c.Spec.ExpiresAt = "2027-07-10T10:00:00Z" }, v1alpha1.ReasonInvalidSignature, "does not cover"},
		"version 2 in no namespace":           {version2(), func(c *v1alpha1.ResourceClaim) { c.Namespace = "" }, v1alpha1.ReasonInvalidSpec, "metadata.namespace"},
		"a version of the future":             {version2(), func(c *v1alpha1.ResourceClaim) { c.Spec.GrantVersion = 3 }, v1alpha1.ReasonGrantVersionRefused, "is 3"},
		"a version below the first":           {version2(), func(c *v1alpha1.ResourceClaim) { c.Spec.GrantVersion = -1 }, v1alpha1.ReasonGrantVersionRefused, "is -1"},
	} {
		t.Run(name, func(t *testing.T) {
			row.change(row.claim)
			_, err := v1alpha1.GrantMessage(row.claim, clusterName)
			if reasonOf(err) != row.reason || (err != nil && !strings.Contains(err.Error(), row.says)) {
				t.Errorf("error %v (%s), want %s with %q", err, reasonOf(err), row.reason, row.says)
			}
			if _, signErr := v1alpha1.SignGrant(row.claim, clusterName, privateKey(t)); (signErr == nil) != (err == nil) {
				t.Errorf("signing says %v, want what the message says: %v", signErr, err)
			}
		})
	}
}

func TestTheClustersNameMattersToVersion2Only(t *testing.T) {
	for name, reason := range map[string]string{"": v1alpha1.ReasonGrantVersionRefused, "a|b": v1alpha1.ReasonInvalidSignature, "other": v1alpha1.ReasonSignatureMismatch} {
		if err := v1alpha1.VerifyGrant(version2(), name, parseKey(t, publicKey)); reasonOf(err) != reason {
			t.Errorf("version 2 on cluster %q: %v, want %s", name, err, reason)
		}
		if err := v1alpha1.VerifyGrant(version1(), name, parseKey(t, publicKey)); err != nil {
			t.Errorf("version 1 on cluster %q: %v, want that it verifies", name, err)
		}
	}
}

func TestWhatMeansNothingWhoeverSignsIt(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*v1alpha1.ResourceClaim)
		says   string
	}{
		"no datastore":               {func(c *v1alpha1.ResourceClaim) { c.Spec.Datastore = "" }, "spec.datastore is empty"},
		"no workspace":               {func(c *v1alpha1.ResourceClaim) { c.Spec.Workspace = "" }, "spec.workspace is empty"},
		"no permission":              {func(c *v1alpha1.ResourceClaim) { c.Spec.Permission = "" }, `spec.permission is ""`},
		"an unknown permission":      {func(c *v1alpha1.ResourceClaim) { c.Spec.Permission = "admin" }, `spec.permission is "admin"`},
		"no time":                    {func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "" }, `spec.grantedAt is ""`},
		"a time without a zone":      {func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "2026-07-10T10:00:00" }, "RFC 3339 with a zone"},
		"a time with a blank in it":  {func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "2026-07-10 10:00:00Z" }, "RFC 3339"},
		"an hour of one digit":       {func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "2026-07-10T1:00:00Z" }, "RFC 3339"},
		"a date without a time":      {func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "2026-07-10" }, "RFC 3339"},
		"an end that is no time":     {func(c *v1alpha1.ResourceClaim) { c.Spec.ExpiresAt = "never" }, `spec.expiresAt is "never"`},
		"a day that does not exist":  {func(c *v1alpha1.ResourceClaim) { c.Spec.ExpiresAt = "2026-02-30T10:00:00Z" }, "spec.expiresAt"},
		"a time with white space":    {func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = " 2026-07-10T10:00:00Z" }, "RFC 3339"},
		"a fraction behind a comma":  {func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "2026-07-10T10:00:00,5Z" }, "RFC 3339"},
		"a zone that does not exist": {func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "2026-07-10T10:00:00+25:00" }, "RFC 3339"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := version2()
			row.change(claim)
			err := v1alpha1.ValidateGrant(claim)
			if reasonOf(err) != v1alpha1.ReasonInvalidSpec || !strings.Contains(err.Error(), row.says) {
				t.Errorf("error %v (%s), want InvalidSpec with %q", err, reasonOf(err), row.says)
			}
			if _, err := v1alpha1.SignGrant(claim, clusterName, privateKey(t)); err == nil {
				t.Error("it can be signed, want an error")
			}
		})
	}
}

func TestTimesMayHaveAnyZoneAndFractions(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-07-10T10:00:00Z":             time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC),
		"2026-07-10T17:00:00+07:00":        time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC),
		"2026-07-10T10:00:00.123456+00:00": time.Date(2026, 7, 10, 10, 0, 0, 123456000, time.UTC),
	} {
		claim := version1()
		claim.Spec.GrantedAt = text
		grantedAt, expiresAt, err := v1alpha1.GrantValidity(claim)
		if err != nil || !grantedAt.Equal(want) || !expiresAt.IsZero() {
			t.Errorf("%s: from %s until %s, %v, want from %s without an end", text, grantedAt, expiresAt, err, want)
		}
	}
}

func TestASignatureThatVerifiesNothing(t *testing.T) {
	_, stranger, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	byStranger, err := v1alpha1.SignGrant(version1(), "", stranger)
	if err != nil {
		t.Fatal(err)
	}
	owner := parseKey(t, publicKey)
	for name, row := range map[string]struct {
		signature string
		keys      []ed25519.PublicKey
		reason    string
	}{
		"none":                      {"", []ed25519.PublicKey{owner}, v1alpha1.ReasonMissingSignature},
		"white space":               {" \n", []ed25519.PublicKey{owner}, v1alpha1.ReasonMissingSignature},
		"the seed's placeholder":    {"hex-encoded-ed25519", []ed25519.PublicKey{owner}, v1alpha1.ReasonInvalidSignature},
		"one digit too few":         {signature1[1:], []ed25519.PublicKey{owner}, v1alpha1.ReasonInvalidSignature},
		"one byte too many":         {signature1 + "00", []ed25519.PublicKey{owner}, v1alpha1.ReasonInvalidSignature},
		"no hex":                    {"zz" + signature1[2:], []ed25519.PublicKey{owner}, v1alpha1.ReasonInvalidSignature},
		"a stranger's":              {byStranger, []ed25519.PublicKey{owner}, v1alpha1.ReasonSignatureMismatch},
		"one for another version":   {signature2, []ed25519.PublicKey{owner}, v1alpha1.ReasonSignatureMismatch},
		"a good one, without a key": {signature1, nil, v1alpha1.ReasonMissingOwnerKey},
		"a good one, with half a key, which the library would panic on": {signature1, []ed25519.PublicKey{owner[:16]}, v1alpha1.ReasonSignatureMismatch},
		"all zero under the key that is all zero":                       {strings.Repeat("00", 64), []ed25519.PublicKey{make([]byte, 32)}, v1alpha1.ReasonSignatureMismatch},
	} {
		if err := v1alpha1.VerifyGrant(signed(row.signature), clusterName, row.keys...); reasonOf(err) != row.reason {
			t.Errorf("%s: %v (%s), want %s", name, err, reasonOf(err), row.reason)
		}
	}
	if err := v1alpha1.VerifyGrant(signed(byStranger), clusterName, owner, stranger.Public().(ed25519.PublicKey)); err != nil {
		t.Errorf("signed by the second of two keys: %v, want that it verifies", err)
	}
}

func TestAGrantIsNotSignedWithHalfAKey(t *testing.T) {
	if _, err := v1alpha1.SignGrant(version1(), "", privateKey(t)[:32]); err == nil {
		t.Error("no error")
	}
}
