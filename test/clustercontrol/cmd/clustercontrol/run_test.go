// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"

// started runs the command until the test ends, and returns the URLs that it prints.
func started(t *testing.T, args ...string) (wire, admin string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	cmd := newCommand()
	cmd.SetErr(writer)
	cmd.SetArgs(append([]string{"--bind-address=127.0.0.1:0", "--admin-bind-address=127.0.0.1:0"}, args...))
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		writer.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for lines := bufio.NewScanner(reader); admin == "" && lines.Scan(); {
		what, url, _ := strings.Cut(lines.Text(), ": ")
		switch url = strings.TrimSpace(url); what {
		case "Wire protocol":
			wire = url
		case "Page":
			admin = url
		}
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	return wire, admin
}

func get(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestRunSelfSigned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	client := func() *http.Client {
		pem, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	}
	wire, admin := started(t, "--self-signed-dir="+dir, "--trusted-key=jkt-premium-01="+key)
	if code, _ := get(t, client(), wire+"/v1/operator/deploy-status"); code != http.StatusUnauthorized || !strings.HasPrefix(wire, "https://") {
		t.Errorf("%s answers %d", wire, code)
	}
	if code, body := get(t, http.DefaultClient, admin); code != 200 || !strings.Contains(body, "Cluster Control") {
		t.Errorf("the page: %d %s", code, body)
	}
	before, _ := os.ReadFile(filepath.Join(dir, "tls.crt"))
	wire, _ = started(t, "--self-signed-dir="+dir)
	get(t, client(), wire+"/v1/operator/deploy-status")
	if after, _ := os.ReadFile(filepath.Join(dir, "tls.crt")); string(before) != string(after) {
		t.Error("the certificate was made again: those who trust it do not trust it now")
	}
}

func TestRunInDevelopment(t *testing.T) {
	wire, admin := started(t, "--dev", "--data="+filepath.Join(t.TempDir(), "log.db"))
	if code, _ := get(t, http.DefaultClient, wire+"/v1/operator/deploy-status"); code != http.StatusUnauthorized || !strings.HasPrefix(wire, "http://") {
		t.Errorf("%s answers %d", wire, code)
	}
	if _, body := get(t, http.DefaultClient, admin+"admin/state"); !strings.Contains(body, `"trust_first_use": true`) {
		t.Errorf("got %s", body)
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"":                                        "--tls-cert-file or --self-signed-dir",
		"--tls-cert-file=x":                       "--tls-cert-file and --tls-key-file",
		"--tls-cert-file=x --tls-key-file=y":      "load the certificate",
		"--dev --client-ca-file=x":                "--client-ca-file",
		"--dev --trusted-key=x":                   "--trusted-key",
		"--dev --trusted-key=a=" + key[1:]:        "--trusted-key",
		"--dev --metering-interval=0s":            "--metering-interval",
		"--dev --bind-address=nowhere:x":          "listen",
		"--dev --data=/does/not/exist":            "/does/not/exist",
		"--self-signed-dir=x --self-signed-host=": "--self-signed-host",
		"--dev --admin-bind-address=nowhere:x":    "listen",
	} {
		cmd := newCommand()
		cmd.SetErr(io.Discard)
		cmd.SetArgs(strings.Fields("--bind-address=127.0.0.1:0 --admin-bind-address=0 " + args))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}
