// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cc "github.com/formspec/formspec-operator/test/clustercontrol"
)

// certificate writes one for the loopback interface into a directory of its own.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	if err := cc.WriteCertificate(dir, time.Now(), "localhost", "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, cc.CertificateFile), filepath.Join(dir, cc.KeyFile)
}

// trusting is a client that trusts an authority, and shows a certificate if it is given one.
func trusting(t *testing.T, authority string, own ...tls.Certificate) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: own, MinVersion: tls.VersionTLS12},
	}}
}

func TestTLS(t *testing.T) {
	certFile, keyFile := certificate(t)
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is readable by others: %v, %v", info.Mode(), err)
	}
	clientCert, clientKey := certificate(t)
	pair, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	strangerCert, strangerKey := certificate(t)
	stranger, err := tls.LoadX509KeyPair(strangerCert, strangerKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		clientCA string
		client   *http.Client
		want     string // empty: 200
	}{
		"without client certificates":  {"", trusting(t, certFile), ""},
		"an authority that is unknown": {"", trusting(t, clientCert), "unknown authority"},
		"mutual":                       {clientCert, trusting(t, certFile, pair), ""},
		"mutual without a certificate": {clientCert, trusting(t, certFile), "certificate required"},
		"mutual with another one":      {clientCert, trusting(t, certFile, stranger), "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := cc.ServingTLS(certFile, keyFile, test.clientCA)
			if err != nil {
				t.Fatal(err)
			}
			server, o := serve(t, cc.Options{})
			secure := httptest.NewUnstartedServer(server.Wire())
			secure.TLS = config
			secure.StartTLS()
			defer secure.Close()
			o.url, o.client = secure.URL, test.client
			got, err := o.try(http.MethodPost, "node-health", o.envelope(1, health))
			if err != nil {
				if test.want == "" || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
				return
			}
			if wantStatus(t, got.status, 200); test.want != "" {
				t.Error("the client was let in")
			}
		})
	}
}

func TestServingTLSNamesTheFile(t *testing.T) {
	certFile, keyFile := certificate(t)
	for name, test := range map[string]struct{ cert, key, clientCA, want string }{
		"no certificate":     {"/does/not/exist", keyFile, "", "/does/not/exist"},
		"no authority":       {certFile, keyFile, "/does/not/exist", "/does/not/exist"},
		"a key as authority": {certFile, keyFile, keyFile, "no certificate"},
	} {
		if _, err := cc.ServingTLS(test.cert, test.key, test.clientCA); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}
