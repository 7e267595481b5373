// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"encoding/base64"
	"testing"
)

func TestTheVerifierIsThatOfRFC7677(t *testing.T) {
	t.Parallel()
	salt, _ := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	got, err := verifierWith("pencil", salt)
	want := "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$" +
		"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if err != nil || got != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

func TestEachVerifierHasItsOwnSalt(t *testing.T) {
	t.Parallel()
	first, _ := verifier("pencil")
	if second, _ := verifier("pencil"); first == second {
		t.Error("two verifiers of one password are equal")
	}
}

func TestQuotingLeavesNoWayOut(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		`plain`:              {`"plain"`, `'plain'`},
		`"; drop table x;--`: {`"""; drop table x;--"`, `'"; drop table x;--'`},
		`'; drop role x; --`: {`"'; drop role x; --"`, `'''; drop role x; --'`},
		`a\'b`:               {`"a\'b"`, `'a\''b'`},
		"a\x00b":             {`"ab"`, `'ab'`},
		"a\xff'":             {"\"a\uFFFD'\"", "'a\uFFFD'''"},
	} {
		if got := identifier(in); got != want[0] {
			t.Errorf("identifier(%q) = %s, want %s", in, got, want[0])
		}
		if got := literal(in); got != want[1] {
			t.Errorf("literal(%q) = %s, want %s", in, got, want[1])
		}
	}
}
