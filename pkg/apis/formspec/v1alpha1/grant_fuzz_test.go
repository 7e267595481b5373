// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"crypto/ed25519"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// FuzzAGrantVerifiesAsItWasSignedAndNotOtherwise signs a claim, puts other bytes into something that is signed, and verifies.
func FuzzAGrantVerifiesAsItWasSignedAndNotOtherwise(f *testing.F) {
	f.Add(false, "pg", "w", "owner", "c", "ns", true, uint8(0), uint16(0), "x")
	f.Add(true, "pg", "w", "owner", "c", "ns", false, uint8(6), uint16(1), "|")
	f.Add(true, "pg|w", "", "owner", "", "ns", false, uint8(7), uint16(9), "")
	f.Add(false, "a", "b", "", "", "", false, uint8(3), uint16(0), "b|read-write|x")
	key := privateKey(f)
	public := key.Public().(ed25519.PublicKey)
	f.Fuzz(func(t *testing.T, second bool, datastore, workspace, owner, cluster, namespace string, expires bool, which uint8, at uint16, insert string) {
		claim := version1()
		claim.Namespace, claim.Spec.GrantVersion = namespace, v1alpha1.GrantVersion1
		claim.Spec.Datastore, claim.Spec.Workspace, claim.Spec.GrantedBy = datastore, workspace, owner
		if second {
			claim.Spec.GrantVersion = v1alpha1.GrantVersion2
		}
		if expires {
			claim.Spec.ExpiresAt = "2027-07-10T10:00:00Z"
		}
		signature, err := v1alpha1.SignGrant(claim, cluster, key)
		if err != nil {
			if v1alpha1.VerifyGrant(claim, cluster, public) == nil {
				t.Fatalf("%+v cannot be signed (%v) and yet verifies", claim.Spec, err)
			}
			return
		}
		claim.Spec.Signature = signature
		if err := v1alpha1.VerifyGrant(claim, cluster, public); err != nil {
			t.Fatalf("%+v was signed and does not verify: %v", claim.Spec, err)
		}
		changed, changedCluster := claim.DeepCopy(), cluster
		signed := []*string{
			&changed.Spec.Datastore, &changed.Spec.Workspace, (*string)(&changed.Spec.Permission), &changed.Spec.GrantedBy, &changed.Spec.GrantedAt,
			&changed.Spec.ExpiresAt,
		}
		if second {
			signed = append(signed, &changedCluster, &changed.Namespace)
		}
		field := signed[int(which)%len(signed)]
		before := *field
		i := int(at) % (len(before) + 1)
		*field = before[:i] + insert + before[min(i+1, len(before)):] // replaces one byte, or appends
		if *field != before && v1alpha1.VerifyGrant(changed, changedCluster, public) == nil {
			t.Fatalf("%+v was signed on %q and %+v verifies on %q", claim.Spec, cluster, changed.Spec, changedCluster)
		}
		changed = claim.DeepCopy()
		changed.Spec.GrantVersion = 3 - claim.Spec.GrantVersion
		if v1alpha1.VerifyGrant(changed, cluster, public) == nil {
			t.Fatalf("%+v was signed and verifies as version %d", claim.Spec, changed.Spec.GrantVersion)
		}
	})
}

// FuzzTwoGrantsHaveOneMessageOnlyIfTheyAreTheSame moves the bytes of a message over the fields in another way.
func FuzzTwoGrantsHaveOneMessageOnlyIfTheyAreTheSame(f *testing.F) {
	f.Add("a", "b", "c", "d", "e", "a|b", "c", "d", "e", "")
	f.Add("formspec-grant/2|c|n|a", "b", "p", "o", "t", "a", "b", "p", "o", "t")
	f.Fuzz(func(t *testing.T, a1, a2, a3, a4, a5, b1, b2, b3, b4, b5 string) {
		claim := func(version int32, s ...string) *v1alpha1.ResourceClaim {
			c := &v1alpha1.ResourceClaim{}
			c.Namespace = "n"
			c.Spec = v1alpha1.ResourceClaimSpec{
				GrantVersion: version, Datastore: s[0], Workspace: s[1], Permission: v1alpha1.Permission(s[2]), GrantedBy: s[3], GrantedAt: s[4],
			}
			return c
		}
		message := func(c *v1alpha1.ResourceClaim) string {
			m, err := v1alpha1.GrantMessage(c, "c")
			if err != nil {
				return ""
			}
			return string(m)
		}
		one, other := claim(1, a1, a2, a3, a4, a5), claim(1, b1, b2, b3, b4, b5)
		if m := message(one); m != "" && (m == message(other) && one.Spec != other.Spec || m == message(claim(2, b1, b2, b3, b4, b5))) {
			t.Fatalf("%+v and %+v are both signed as %q", one.Spec, other.Spec, m)
		}
	})
}

// FuzzWhateverIsPublishedOrSignedIsNoPanic feeds anything to the parsers.
func FuzzWhateverIsPublishedOrSignedIsNoPanic(f *testing.F) {
	f.Add(publicKey+"\n# x\n"+seed, signature1)
	f.Add("-----BEGIN", "")
	f.Fuzz(func(t *testing.T, entry, signature string) {
		keys, _ := v1alpha1.ParseOwnerKeys(entry)
		for _, key := range keys {
			if again, err := v1alpha1.ParsePublicKey(v1alpha1.FormatPublicKey(key)); err != nil || !again.Equal(key) {
				t.Fatalf("%x is not read as it is printed: %v", key, err)
			}
		}
		if err := v1alpha1.VerifyGrant(signed(signature), "", keys...); err == nil {
			if _, err := v1alpha1.ParseGrantSignature(signature); err != nil {
				t.Fatalf("%q verifies and is no signature: %v", signature, err)
			}
		}
	})
}
