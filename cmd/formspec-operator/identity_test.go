// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/formspec/formspec-operator/pkg/clustercontrol/identity"
)

// identityPEM is the key of testSeed, as openssl writes it.
const identityPEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n"

func TestIdentityOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identity.pem")
	if err := os.WriteFile(file, []byte(identityPEM), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	if code := execute(t.Context(), []string{"identity", "--file", file}, &out, &notes); code != exitOK {
		t.Fatalf("exit code %d: %s", code, notes.String())
	}
	if want := "key id: 21fe31dfa154a261\npublic key: " + testPublicKey + "\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestIdentityOfASecret(t *testing.T) {
	client := kubefake.NewClientset()
	o := identityOptions{namespace: "formspec-system"}
	var out bytes.Buffer
	err := o.read(t.Context(), client, &out)
	if err == nil || !strings.Contains(err.Error(), "--control-cluster-url") || out.Len() > 0 {
		t.Errorf("with no Secret: %v, printed %q", err, out.String())
	}
	key, err := identity.Ensure(t.Context(), client, o.namespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.read(t.Context(), client, &out); err != nil || !strings.Contains(out.String(), key.PublicKey()) || !strings.Contains(out.String(), key.KeyID()) {
		t.Errorf("printed %q (%v)", out.String(), err)
	}
	if strings.Contains(out.String(), "PRIVATE") {
		t.Error("the private key was printed")
	}
}

func TestIdentityThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identity.pem")
	if err := os.WriteFile(file, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		args []string
		code int
	}{
		"no key":  {[]string{"--file", file}, exitError},
		"no file": {[]string{"--file", file + ".absent"}, exitError},
		"both":    {[]string{"--file", file, "--namespace", "x"}, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			var out, notes bytes.Buffer
			if code := execute(t.Context(), append([]string{"identity"}, row.args...), &out, &notes); code != row.code || out.Len() > 0 {
				t.Errorf("exit code %d, printed %q", code, out.String())
			}
			if strings.Contains(notes.String(), "hunter2") {
				t.Error("the error quotes the file")
			}
		})
	}
}
