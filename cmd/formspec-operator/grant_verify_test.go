// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

const ownerKeysConfigMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: formspec-owner-keys, namespace: formspec-system}
data:
  cloud-owner: |
    # since 2026
    ` + testPublicKey + `
  other: nonsense
`

func signedClaim(t *testing.T, args ...string) string {
	t.Helper()
	signed, _, err := grant(t, unsignedClaim, append([]string{"sign", "--key", file(t, "key", testSeed), "--granted-at", "2026-07-10T10:00:00Z"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestVerifyingTellsWhatTheOperatorWouldDecide(t *testing.T) {
	one := signedClaim(t)
	two := signedClaim(t, "--grant-version", "2", "--cluster-name", "c", "--namespace", "bank", "--expires-at", "2026-07-10T12:00:00Z")
	keys := file(t, "keys.yaml", ownerKeysConfigMap)
	lines := file(t, "owner.pub", "# mine\n"+testPublicKey+"\n")
	datastore := file(t, "datastore.yaml", someDatastore)
	closed := file(t, "closed.yaml", strings.Replace(someDatastore, "workspace:bank-mandiri-prod", "workspace:other", 1))
	foreign := file(t, "foreign.yaml", strings.Replace(someDatastore, "owner: cloud-owner", "owner: somebody", 1))
	keyed := file(t, "keyed.yaml", someDatastore+"  ownerPublicKey: "+testPublicKey+"\n")
	for name, row := range map[string]struct {
		claim string
		args  []string
		says  string // of an accepted claim; of a refused one with its reason
		fails bool
	}{
		"with the key":                      {one, []string{"--public-key", testPublicKey}, "Not checked without --datastore", false},
		"with one of several keys":          {one, []string{"--public-key", testSeed, "--public-key", testPublicKey}, "ClaimVerified", false},
		"with the keys as a ConfigMap":      {one, []string{"--owner-keys", keys}, "ClaimVerified", false},
		"with the keys as lines":            {one, []string{"--owner-keys", lines}, "ClaimVerified", false},
		"with its Datastore":                {one, []string{"--owner-keys", keys, "--datastore", datastore}, "ClaimVerified", false},
		"with its Datastore in one file":    {one + "---\n" + someDatastore, []string{"--owner-keys", keys}, "ClaimVerified", false},
		"with the key in the Datastore":     {one, []string{"--datastore", keyed}, "spec.ownerPublicKey", false},
		"what is signed":                    {one, []string{"--public-key", testPublicKey}, "What the owner signs: pg-bank-mandiri|bank-mandiri-prod|", false},
		"version 2, before its end":         {two, []string{"--public-key", testPublicKey, "--cluster-name", "c", "--at", "2026-07-10T11:00:00Z"}, "until 2026-07-10T12:00:00Z", false},
		"version 2, after its end":          {two, []string{"--public-key", testPublicKey, "--cluster-name", "c", "--at", "2026-07-10T12:00:00Z"}, "Expired", true},
		"version 2, on another cluster":     {two, []string{"--public-key", testPublicKey, "--cluster-name", "d", "--at", "2026-07-10T11:00:00Z"}, "SignatureMismatch", true},
		"version 2, in another namespace":   {strings.Replace(two, `"bank"`, "x", 1), []string{"--public-key", testPublicKey, "--cluster-name", "c"}, "|x|", true},
		"version 1 where it is not enough":  {one, []string{"--public-key", testPublicKey, "--min-grant-version", "2"}, "GrantVersionRefused", true},
		"before its time":                   {one, []string{"--public-key", testPublicKey, "--at", "2026-07-10T09:00:00Z"}, "NotYetValid", true},
		"unsigned":                          {unsignedClaim, []string{"--public-key", testPublicKey}, "MissingSignature", true},
		"changed after it was signed":       {strings.Replace(one, "read-write", "read-only", 1), []string{"--public-key", testPublicKey}, "SignatureMismatch", true},
		"a key that is none":                {one, []string{"--public-key", testSeed}, "InvalidOwnerKey", true},
		"an owner without published keys":   {one, []string{"--owner-keys", file(t, "none.yaml", "apiVersion: v1\nkind: ConfigMap\n")}, "MissingOwnerKey", true},
		"a workspace that is not allowed":   {one, []string{"--owner-keys", keys, "--datastore", closed}, `Add it there`, true},
		"somebody else's datastore":         {one, []string{"--owner-keys", keys, "--datastore", foreign}, "GrantorNotOwner", true},
		"another datastore":                 {strings.Replace(one, "datastore: pg-bank-mandiri", "datastore: pg2", 1), []string{"--owner-keys", keys, "--datastore", datastore}, "DatastoreNotFound", true},
		"a Datastore's key that is no good": {one, []string{"--datastore", keyed, "--trust-datastore-keys=false"}, "MissingOwnerKey", true},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := grant(t, row.claim, append([]string{"verify", "-f", "-"}, row.args...)...)
			if !strings.Contains(out, row.says) || (err != nil) != row.fails {
				t.Errorf("%s (error %v), want %q (error: %v)", out, err, row.says, row.fails)
			}
			if row.fails {
				expectError(t, err, false, "1 of 1 ResourceClaims would be refused")
			}
		})
	}
}

func TestVerifyingNeedsSomethingToVerify(t *testing.T) {
	_, _, err := grant(t, someDatastore, "verify", "-f", "-", "--public-key", testPublicKey)
	expectError(t, err, false, "no ResourceClaim")
	_, _, err = grant(t, signedClaim(t), "verify", "-f", "-")
	expectError(t, err, true, "--public-key")
	_, _, err = grant(t, signedClaim(t), "verify", "-f", "-", "--public-key", testPublicKey, "--at", "tomorrow")
	expectError(t, err, true, "--at")
}
