// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"strings"
	"testing"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

// with signs as somebody else.
func (o *operator) with(seed byte) *operator {
	other := o.as(otherInstance)
	other.key = newKey(seed)
	return other
}

func TestTrustOnFirstUse(t *testing.T) {
	server, o := serve(t, cc.Options{TrustFirstUse: true})
	wantStatus(t, o.report(cc.Health, health), 200)
	wantStatus(t, o.as(otherInstance).report(cc.Health, health), 200)
	wantStatus(t, o.with(2).report(cc.Health, health), 401)
	wantViolations(t, server, cc.UnknownKey)
	if got, _ := o.poll(0, ""); got.status != 200 {
		t.Errorf("the poll got %+v", got)
	}
	captures, err := server.Captures()
	if err != nil || len(captures) != 3 || captures[0].Verified {
		t.Errorf("got %+v, %v: want three that are not verified", captures, err)
	}
}

// A key that is known beats one that was only seen, and nobody is believed on first use after it.
func TestTrustedKeyBeatsFirstUse(t *testing.T) {
	server, o := serve(t, cc.Options{TrustFirstUse: true})
	wantStatus(t, o.with(2).report(cc.Health, health), 200)
	if err := server.Trust(trusted(o.key)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, o.report(cc.Health, health), 200)
	stranger := o.with(2)
	code, _ := stranger.post(cc.Health, stranger.envelope(2, health))
	wantStatus(t, code, 401)
	wantViolations(t, server, cc.UnknownKey)
}

func TestTrust(t *testing.T) {
	server, o := serve(t, cc.Options{})
	rotated := o.with(2)
	wantStatus(t, rotated.report(cc.Health, health), 401)
	if err := server.Trust(trusted(rotated.key)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, rotated.report(cc.Health, health), 200)
	wantStatus(t, o.report(cc.Health, health), 200)
}

func TestParseKey(t *testing.T) {
	for _, text := range []string{"", "x", strings.Repeat("a", 63), strings.Repeat("a", 66), strings.Repeat("g", 64)} {
		if _, err := cc.ParseKey(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if key, err := cc.ParseKey(strings.Repeat("0a", 32)); err != nil || len(key) != 32 {
		t.Errorf("got %v, %v", key, err)
	}
	// RFC 8032, 7.1, test 1; the id was computed with sha256sum.
	key, err := cc.ParseKey("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
	if err != nil || (cc.TrustedKey{Public: key}).ID() != "21fe31dfa154a261" {
		t.Errorf("got the id %s, %v", cc.TrustedKey{Public: key}.ID(), err)
	}
}
