// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHealthHandler(t *testing.T) {
	for name, test := range map[string]struct {
		ready        error
		method, path string
		code         int
		body         string
	}{
		"alive while not ready": {ready: errors.New("not yet"), path: "/healthz", code: http.StatusOK, body: "ok\n"},
		"not ready":             {ready: errors.New("not yet"), path: "/readyz", code: http.StatusServiceUnavailable, body: "not yet\n"},
		"ready":                 {path: "/readyz", code: http.StatusOK, body: "ok\n"},
		"a HEAD":                {method: http.MethodHead, path: "/readyz", code: http.StatusOK, body: "ok\n"},
		"a POST":                {method: http.MethodPost, path: "/readyz", code: http.StatusMethodNotAllowed},
		"anything else":         {path: "/metrics", code: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			healthHandler(func() error { return test.ready }).ServeHTTP(answer, httptest.NewRequest(test.method, test.path, nil))
			if answer.Code != test.code || test.body != "" && answer.Body.String() != test.body {
				t.Errorf("got %d %q, want %d %q", answer.Code, answer.Body, test.code, test.body)
			}
		})
	}
}

func TestServer(t *testing.T) {
	t.Run("a taken port is found before it serves", func(t *testing.T) {
		first, err := newServer("127.0.0.1:0", http.NotFoundHandler(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer first.stop()
		if _, err := newServer(first.listener.Addr().String(), http.NotFoundHandler(), nil); err == nil {
			t.Error("want an error")
		}
	})
	t.Run("0 turns it off", func(t *testing.T) {
		s, err := newServer(bindOff, http.NotFoundHandler(), nil)
		if s != nil || err != nil {
			t.Errorf("got %v, %v", s, err)
		}
		s.start(func(err error) { t.Error(err) })
		s.stop()
	})
	t.Run("an end that nobody asked for is reported", func(t *testing.T) {
		s, err := newServer("127.0.0.1:0", http.NotFoundHandler(), nil)
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		s.start(func(err error) { failed <- err })
		_ = s.listener.Close()
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "serve 127.0.0.1:") {
			t.Errorf("got %v", err)
		}
	})
}

func TestServingTLS(t *testing.T) {
	t.Run("self-signed", func(t *testing.T) {
		now := time.Now()
		secure, err := servingTLS("", "", now)
		if err != nil {
			t.Fatal(err)
		}
		certificate := served(t, secure)
		if err := certificate.VerifyHostname("localhost"); err != nil {
			t.Error(err)
		}
		if certificate.NotAfter.Before(now.AddDate(5, 0, 0)) || certificate.NotBefore.After(now) {
			t.Errorf("valid from %s to %s", certificate.NotBefore, certificate.NotAfter)
		}
	})
	t.Run("files that are renewed", func(t *testing.T) {
		certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
		first := writeCertificate(t, certFile, keyFile)
		secure, err := servingTLS(certFile, keyFile, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := served(t, secure); !got.Equal(first) {
			t.Error("another certificate is served")
		}
		second := writeCertificate(t, certFile, keyFile)
		if got := served(t, secure); !got.Equal(second) {
			t.Error("the renewed certificate is not served")
		}
	})
	t.Run("files that are missing", func(t *testing.T) {
		if _, err := servingTLS("/does/not/exist", "/nor/this", time.Now()); err == nil {
			t.Error("want an error at the start")
		}
	})
}

// served returns the certificate that a client is shown.
func served(t *testing.T, secure *tls.Config) *x509.Certificate {
	t.Helper()
	s, err := newServer("127.0.0.1:0", http.NotFoundHandler(), secure)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	s.start(func(err error) { t.Error(err) })
	conn, err := tls.Dial("tcp", s.listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0]
}

func writeCertificate(t *testing.T, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	certificate, err := selfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
