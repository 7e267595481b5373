// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/test/clustercontrol"
)

// adminOff as an address serves no page.
const adminOff = "0"

// run serves until the context ends. What people need to know goes to out.
func run(ctx context.Context, o *options, out io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	keys, err := o.keys()
	if err != nil {
		return err
	}
	secure, err := o.tlsConfig()
	if err != nil {
		return err
	}
	server, err := clustercontrol.New(clustercontrol.Options{
		Path: o.data, Keys: keys, TrustFirstUse: o.dev, MeteringInterval: o.meteringInterval, Logger: klog.FromContext(ctx),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()

	wire, err := listen(o.bindAddress, secure)
	if err != nil {
		return err
	}
	defer wire.Close()
	failed := make(chan error, 2)
	serve := func(l net.Listener, handler http.Handler) *http.Server {
		s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
		go func() { failed <- s.Serve(l) }()
		return s
	}
	fmt.Fprintf(out, "Wire protocol: %s://%s\n", o.scheme(), wire.Addr())
	if o.adminBindAddress != adminOff {
		admin, err := listen(o.adminBindAddress, nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "Page:          http://%s/\n", admin.Addr())
		defer serve(admin, server.Admin()).Close()
	}
	defer serve(wire, server.Wire()).Close()

	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	}
}

func listen(address string, secure *tls.Config) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if secure != nil {
		listener = tls.NewListener(listener, secure) // HTTP/1.1 only: to close a connection then ends one request
	}
	return listener, nil
}

func (o *options) scheme() string {
	if o.secure() {
		return "https"
	}
	return "http"
}

// tlsConfig is nil for plain HTTP.
func (o *options) tlsConfig() (*tls.Config, error) {
	if !o.secure() {
		return nil, nil
	}
	certFile, keyFile := o.tlsCertFile, o.tlsKeyFile
	if o.selfSignedDir != "" {
		certFile = filepath.Join(o.selfSignedDir, clustercontrol.CertificateFile)
		keyFile = filepath.Join(o.selfSignedDir, clustercontrol.KeyFile)
		if _, err := os.Stat(certFile); errors.Is(err, fs.ErrNotExist) {
			if err := clustercontrol.WriteCertificate(o.selfSignedDir, time.Now(), o.selfSignedHosts...); err != nil {
				return nil, fmt.Errorf("make a self-signed certificate: %w", err)
			}
		}
	}
	return clustercontrol.ServingTLS(certFile, keyFile, o.clientCAFile)
}
