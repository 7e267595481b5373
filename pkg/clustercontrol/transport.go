// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
	"k8s.io/klog/v2"
)

// TLSFiles are the files of the channel to Cluster Control, in PEM. They are read again when they change.
type TLSFiles struct {
	// CA are the authorities that may sign the server's certificate. Empty: those of the system.
	CA string
	// Cert and Key are the client's certificate, for mTLS. Both, or neither.
	Cert, Key string
}

const (
	// maxFileBytes bounds each of the files.
	maxFileBytes = 1 << 20
	// connectTimeout bounds a dial, and a handshake.
	connectTimeout = 5 * time.Second
)

// transport is an http.RoundTripper whose certificates follow their files. A change closes idle connections, so that the next request
// makes its handshake anew. While what the files hold does not fit together, as in the midst of a rotation, the last that did is used.
type transport struct {
	files  TLSFiles
	dial   dialFunc
	proxy  func(*url.URL) (*url.URL, error)
	logger klog.Logger

	mu      sync.Mutex
	content [3][]byte // of the files, as current uses them
	current *http.Transport
	broken  bool // the files have changed since and cannot be used
}

func newTransport(logger klog.Logger, files TLSFiles, dial dialFunc) (*transport, error) {
	if (files.Cert == "") != (files.Key == "") {
		return nil, errors.New("a client certificate and its key: each needs the other")
	}
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	// Read here and not once per process as net/http does: what a request of another kind has cached does not count.
	t := &transport{files: files, dial: bounded(dial), proxy: httpproxy.FromEnvironment().ProxyFunc(), logger: logger}
	content, err := t.read()
	if err != nil {
		return nil, err
	}
	if t.current, err = t.build(content); err != nil {
		return nil, err
	}
	t.content = content
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.get().RoundTrip(req)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *transport) CloseIdleConnections() { t.get().CloseIdleConnections() }

// get returns the transport for the files as they are now. To read some kilobytes before each of few requests is the one way that
// notices every kind of rotation.
func (t *transport) get() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	content, err := t.read()
	if err == nil && equal(content, t.content) {
		t.broken = false
		return t.current
	}
	var next *http.Transport
	if err == nil {
		next, err = t.build(content)
	}
	if err != nil {
		if !t.broken {
			t.logger.Error(err, "The TLS files of the channel to Cluster Control have changed and cannot be used; the previous ones stay in use")
		}
		t.broken = true
		return t.current
	}
	t.current.CloseIdleConnections()
	t.logger.Info("The TLS files of the channel to Cluster Control have changed and are in use")
	t.current, t.content, t.broken = next, content, false
	return t.current
}

func equal(a, b [3][]byte) bool {
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]) && bytes.Equal(a[2], b[2])
}

func (t *transport) read() (content [3][]byte, err error) {
	for i, name := range []string{t.files.CA, t.files.Cert, t.files.Key} {
		if name == "" {
			continue
		}
		if content[i], err = readFile(name); err != nil {
			return content, err
		}
	}
	return content, nil
}

func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxFileBytes))
}

func (t *transport) build(content [3][]byte) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.files.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content[0]) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", t.files.CA)
		}
	}
	if t.files.Cert != "" {
		certificate, err := tls.X509KeyPair(content[1], content[2])
		if err != nil {
			return nil, fmt.Errorf("the client certificate %s and its key %s: %w", t.files.Cert, t.files.Key, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return &http.Transport{
		Proxy:                  func(req *http.Request) (*url.URL, error) { return t.proxy(req.URL) },
		DialContext:            t.dial,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    connectTimeout,
		DisableCompression:     true, // a small answer must not become a large one
		MaxIdleConnsPerHost:    len(Endpoints()),
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		// HTTP/1.1: a connection that has gone dead is given up with the request that met it.
		Protocols: http1(),
	}, nil
}

// bounded ends a dial that takes too long: net/http lets it go on when the request has been given up, for the next one to use.
func bounded(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

func http1() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}
