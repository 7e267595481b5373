// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func TestSigningChangesNothingElse(t *testing.T) {
	key := file(t, "key", testSeed)
	other := "# not ours\napiVersion:   v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: |\n    ---\n    kind: ResourceClaim\n"
	stream := "---\n" + other + "---\n" + unsignedClaim + "---\n" + someDatastore + "---\n"
	got, notes, err := grant(t, stream, "sign", "--key", key, "--granted-at", "2026-07-10T10:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	signed := strings.Replace(unsignedClaim, `  signature: "" # filled`, `  signature: "`+testSignature+`" # filled`, 1) + "  grantedAt: \"2026-07-10T10:00:00Z\"\n"
	if want := "---\n" + other + "---\n" + signed + "---\n" + someDatastore + "---\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if want := "pg-bank-mandiri|bank-mandiri-prod|read-write|cloud-owner|2026-07-10T10:00:00Z\n"; !strings.HasSuffix(notes, want) {
		t.Errorf("notes %q, want what was signed: %q", notes, want)
	}
}

func TestSigningAgainGivesTheSame(t *testing.T) {
	key := file(t, "key", testSeed)
	args := []string{"sign", "--key", key, "--granted-at", "2026-07-10T10:00:00Z", "--grant-version", "2", "--cluster-name", "c", "--namespace", "bank", "--expires-in", "24h"}
	once, _, err := grant(t, unsignedClaim, args...)
	if err != nil {
		t.Fatal(err)
	}
	twice, _, err := grant(t, once, args...)
	if err != nil || once != twice {
		t.Errorf("%v, once\n%s\ntwice\n%s", err, once, twice)
	}
	for _, line := range []string{"  namespace: \"bank\"\n", "  grantVersion: 2\n", "  expiresAt: \"2026-07-11T10:00:00Z\"\n"} {
		if !strings.Contains(once, line) {
			t.Errorf("no line %q in\n%s", line, once)
		}
	}
}

func TestAListIsSignedItemByItem(t *testing.T) {
	indent := func(text string) string {
		return "- " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
	}
	plain := strings.ReplaceAll(unsignedClaim, "# What the bank may use.\n", "")
	list := "apiVersion: v1\nkind: List\nitems:\n" + indent(someDatastore) + indent(plain) + indent(strings.ReplaceAll(plain, "bank-pg-claim", "another"))
	signed, notes, err := grant(t, list, "sign", "--key", file(t, "key", testSeed))
	if err != nil || strings.Count(notes, "signed ResourceClaim") != 2 {
		t.Fatalf("%v, notes %s", err, notes)
	}
	text, _, err := grant(t, signed, "verify", "-f", "-", "--public-key", testPublicKey)
	if err == nil || strings.Count(text, "Superseded") != 1 || strings.Count(text, "accepted") != 1 {
		t.Errorf("%s (%v), want that one of the two is in force", text, err)
	}
	if !strings.Contains(signed, "driver: postgres") {
		t.Errorf("the Datastore is gone:\n%s", signed)
	}
}

func TestTheGrantIsOfNowUnlessToldOtherwise(t *testing.T) {
	before := time.Now().Add(-time.Second)
	_, notes, err := grant(t, unsignedClaim, "sign", "--key", file(t, "key", testSeed))
	if err != nil {
		t.Fatal(err)
	}
	stamp := strings.TrimSpace(notes[strings.LastIndex(notes, "|")+1:])
	if at, err := time.Parse("2006-01-02T15:04:05Z", stamp); err != nil || at.Before(before) || at.After(time.Now()) {
		t.Errorf("granted at %s (%v), want now in UTC", stamp, err)
	}
}

func TestWhatIsNotSigned(t *testing.T) {
	key := file(t, "key", testSeed)
	line := func(text string) string { return unsignedClaim + "  " + text + "\n" }
	for name, row := range map[string]struct {
		claim string
		args  []string
		usage bool
		says  string
	}{
		"nothing of ours":                  {someDatastore, nil, false, "no ResourceClaim"},
		"a claim by nobody":                {strings.Replace(unsignedClaim, "  grantedBy: cloud-owner\n", "", 1), nil, true, "--granted-by"},
		"no permission":                    {strings.Replace(unsignedClaim, "  permission: read-write\n", "", 1), nil, false, "spec.permission"},
		"a separator":                      {unsignedClaim, []string{"--granted-by", "a|b"}, false, "must not contain"},
		"a field that no API server keeps": {line("permissions: x"), nil, false, "permissions"},
		"a field twice":                    {line("permission: read-only"), nil, false, "permission"},
		"version 1 with an end":            {unsignedClaim, []string{"--expires-in", "1h"}, true, "--grant-version 2"},
		"version 1 with an old end":        {line(`expiresAt: "2027-01-01T00:00:00Z"`), nil, false, "version 1 grant does not cover"},
		"version 1 on a cluster":           {unsignedClaim, []string{"--cluster-name", "c"}, true, "--grant-version 2"},
		"version 2 on no cluster":          {unsignedClaim, []string{"--grant-version", "2", "--namespace", "n"}, true, "--cluster-name"},
		"version 2 in no namespace":        {unsignedClaim, []string{"--grant-version", "2", "--cluster-name", "c"}, true, "--namespace"},
		"version 3":                        {unsignedClaim, []string{"--grant-version", "3"}, true, "want 1 or 2"},
		"a claim of another namespace":     {strings.Replace(unsignedClaim, "metadata:\n", "metadata:\n  namespace: a\n", 1), []string{"--namespace", "b"}, true, `metadata.namespace is "a"`},
		"a start that is no time":          {unsignedClaim, []string{"--granted-at", "now"}, true, "--granted-at"},
		"an end that is no time":           {unsignedClaim, []string{"--expires-at", "never"}, true, "--expires-at"},
		"an end before the start":          {unsignedClaim, []string{"--grant-version", "2", "--cluster-name", "c", "--namespace", "n", "--expires-at", "2020-01-01T00:00:00Z"}, false, "before it starts"},
		"an end before the start, as text": {unsignedClaim, []string{"--expires-in", "-1h"}, true, "before it starts"},
		"no YAML":                          {"{", nil, false, `starts with "{"`},
		"a spec that stands elsewhere":     {"a: &s {workspace: w}\n" + strings.Split(unsignedClaim, "spec:")[0] + "spec: *s\n", nil, false, "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := grant(t, row.claim, append([]string{"sign", "--key", key}, row.args...)...)
			expectError(t, err, row.usage, row.says)
			if out != "" {
				t.Errorf("it prints %q, want nothing that could be applied", out)
			}
		})
	}
}
