// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// testSeed is the private key of test 1 in RFC 8032, testSignature what openssl made with it of the claim below.
const (
	testSeed      = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
	testPublicKey = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	testSignature = "5f4cea4716f5329865db33fa74d7dfd83b80b8f91adbc80ba206d3326dcb7775de7c27a872f3f953cb694a45d992f22c450dd154f6af2c0727e7e6345e14ed06"
)

const unsignedClaim = `# What the bank may use.
apiVersion: formspec.dev/v1alpha1
kind: ResourceClaim
metadata:
  name: bank-pg-claim # a comment
spec:
  workspace: bank-mandiri-prod
  datastore: pg-bank-mandiri
  permission: read-write
  grantedBy: cloud-owner
  signature: "" # filled in by the owner
`

const someDatastore = `apiVersion: formspec.dev/v1alpha1
kind: Datastore
metadata: {name: pg-bank-mandiri}
spec:
  driver:   postgres   # oddly spaced
  endpointSecretRef: {name: creds, key: dsn}
  allowedTenants: ["workspace:bank-mandiri-prod"]
  owner: cloud-owner
`

// grant runs a subcommand of grant and returns what it prints.
func grant(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, notes bytes.Buffer
	root := newRootCommand()
	root.SetArgs(append([]string{"grant"}, args...))
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&notes)
	err = root.ExecuteContext(t.Context())
	return out.String(), notes.String(), err
}

func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// expectError says that the command fails with these words, and whether the command line is to blame.
func expectError(t *testing.T, err error, usage bool, says string) {
	t.Helper()
	var wrong usageError
	if err == nil || !strings.Contains(err.Error(), says) || errors.As(err, &wrong) != usage {
		t.Errorf("error %v (of the command line: %v), want one with %q (%v)", err, errors.As(err, &wrong), says, usage)
	}
}

func TestAKeyPairIsMadeOnceAndCanSignAndVerify(t *testing.T) {
	out := filepath.Join(t.TempDir(), "key.pem")
	stdout, _, err := grant(t, "", "keygen", "--owner", "cloud-owner", "--out", out)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(out)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key is %v, %v, want mode 0600", info.Mode(), err)
	}
	private, err := readPrivateKey(out)
	if err != nil {
		t.Fatal(err)
	}
	public := v1alpha1.FormatPublicKey(private.Public().(ed25519.PublicKey))
	for _, line := range []string{
		"Public key:  " + public,
		"kubectl create configmap formspec-owner-keys --namespace formspec-system --from-literal=cloud-owner=" + public,
		`kubectl patch configmap formspec-owner-keys --namespace formspec-system --type merge --patch '{"data":{"cloud-owner":"` + public + `"}}'`,
	} {
		if !strings.Contains(stdout, line+"\n") {
			t.Errorf("no line %q in:\n%s", line, stdout)
		}
	}
	signed, _, err := grant(t, unsignedClaim, "sign", "--key", out)
	if err != nil {
		t.Fatal(err)
	}
	if text, _, err := grant(t, signed, "verify", "-f", "-", "--public-key", public); err != nil || !strings.Contains(text, "accepted (ClaimVerified)") {
		t.Errorf("%s, %v, want it accepted", text, err)
	}

	before, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = grant(t, "", "keygen", "--owner", "cloud-owner", "--out", out)
	expectError(t, err, false, "--force")
	if after, err := os.ReadFile(out); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key changed without --force (%v)", err)
	}
	if err := os.Chmod(out, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := grant(t, "", "keygen", "--owner", "cloud-owner", "--out", out, "--force"); err != nil {
		t.Fatal(err)
	}
	info, err = os.Stat(out)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the replaced key is %v, %v, want mode 0600", info.Mode(), err)
	}
	if after, err := os.ReadFile(out); err != nil || bytes.Equal(before, after) {
		t.Errorf("the key is the same with --force (%v)", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(out)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, want the key alone", entries, err)
	}
}

func TestAPrivateKeyOnStandardOutputIsAlone(t *testing.T) {
	stdout, stderr, err := grant(t, "", "keygen", "--owner", "cloud-owner", "--out", "-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readPrivateKey(file(t, "key", stdout)); err != nil || strings.Contains(stdout, "kubectl") || !strings.Contains(stderr, "kubectl patch") {
		t.Errorf("standard output %q (%v), standard error %q", stdout, err, stderr)
	}
}

func TestAnOwnerWhoseKeyCannotBePublishedGetsNone(t *testing.T) {
	for _, name := range []string{"cloud owner", "a|b", "a/b", "", "$(x)"} {
		_, _, err := grant(t, "", "keygen", "--owner", name, "--out", filepath.Join(t.TempDir(), "k"))
		expectError(t, err, true, "--owner")
	}
}

func TestKeysThatCannotBeRead(t *testing.T) {
	for name, row := range map[string]struct{ content, says string }{
		"nothing":          {"", "neither a private key in PEM nor a seed"},
		"half a seed":      {testSeed[:32], "64 hex digits"},
		"a public key":     {"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n", `"PUBLIC KEY"`},
		"an encrypted key": {"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", "openssl pkey"},
		"nonsense in PEM":  {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "asn1"},
	} {
		_, err := readPrivateKey(file(t, "key", row.content))
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want an error with %q", name, err, row.says)
		}
		if err != nil && len(row.content) >= 32 && strings.Contains(err.Error(), row.content) {
			t.Errorf("%s: %v quotes the key", name, err)
		}
	}
	if key, err := readPrivateKey(file(t, "key", testSeed+"\n")); err != nil || hex.EncodeToString(key.Seed()) != testSeed {
		t.Errorf("the seed in hex: %v", err)
	}
}

func TestJoinedDocumentsAreTheStream(t *testing.T) {
	for _, stream := range []string{
		"", "\n", "---\n", "a: 1", "a: 1\n---\nb: 2\n", "---\na: 1\n--- \r\n---\nb: |\n  ---\n  x\n", "# c\n---\n# d\n", "a: 1\r\n---\r\nb: 2",
	} {
		parts := splitDocuments([]byte(stream))
		if got := strings.Join(parts, ""); got != stream {
			t.Errorf("%q comes back as %q", stream, got)
		}
	}
}

func TestTheGrantCommandsHaveExitCodes(t *testing.T) {
	claim := file(t, "claim.yaml", unsignedClaim)
	for name, row := range map[string]struct {
		args []string
		want int
	}{
		"help":               {[]string{"grant"}, exitOK},
		"refused":            {[]string{"grant", "verify", "-f", claim, "--public-key", testPublicKey}, exitError},
		"no key":             {[]string{"grant", "verify", "-f", claim}, exitUsage},
		"no owner":           {[]string{"grant", "keygen"}, exitUsage},
		"no file":            {[]string{"grant", "sign", "--key", file(t, "key", testSeed), "-f", claim + ".x"}, exitError},
		"unknown":            {[]string{"grant", "bless"}, exitUsage},
		"both kinds of keys": {[]string{"grant", "verify", "-f", claim, "--public-key", "x", "--owner-keys", "y"}, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if got := execute(t.Context(), row.args, &out, &out); got != row.want {
				t.Errorf("exit code %d, want %d: %s", got, row.want, out.String())
			}
		})
	}
}
