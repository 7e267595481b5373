// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"time"
)

// bindOff as a bind address turns a server off.
const bindOff = "0"

// server is an HTTP server that listens already and serves once it is started. A nil one does nothing.
type server struct {
	http.Server
	listener net.Listener
}

// newServer binds address, so that a port which is taken is found at once. It returns nil for bindOff.
func newServer(address string, handler http.Handler, secure *tls.Config) (*server, error) {
	if address == bindOff {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	return &server{
		Server: http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout:       30 * time.Second,
			WriteTimeout:      time.Minute,
			IdleTimeout:       2 * time.Minute,
		},
		listener: listener,
	}, nil
}

// start serves until stop; fail is called if it ends by itself.
func (s *server) start(fail func(error)) {
	if s == nil {
		return
	}
	go func() {
		if err := s.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			fail(fmt.Errorf("serve %s: %w", s.listener.Addr(), err))
		}
	}()
}

// stop ends the server at once: a scrape or a probe can be repeated.
func (s *server) stop() {
	if s != nil {
		_ = s.Close()
		_ = s.listener.Close() // if it was never started
	}
}

// healthHandler serves /healthz, which says only that this process answers: a restart mends neither the API server nor the lease.
// /readyz asks ready.
func healthHandler(ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

// servingTLS returns the TLS config for a certificate in files, or for a self-signed one when certFile is empty.
// Files are read at each handshake: these are few, and a renewed certificate then needs no restart.
func servingTLS(certFile, keyFile string, now time.Time) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if certFile == "" {
		certificate, err := selfSigned(now)
		if err != nil {
			return nil, fmt.Errorf("make a self-signed certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
		return config, nil
	}
	load := func() (*tls.Certificate, error) {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("load the certificate: %w", err)
		}
		return &certificate, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() }
	return config, nil
}

func selfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "formspec-operator"},
		DNSNames:     []string{"formspec-operator", "localhost"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(10, 0, 0), // no process lives that long
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
