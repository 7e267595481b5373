// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// verification is how much of the server's certificate is checked.
type verification int

const (
	verifyNothing verification = iota // encrypted, to whoever it is
	verifyChain                       // from an authority that is trusted
	verifyFull                        // and made out to the host that was asked for
)

// clientTLS trusts the authorities in ca, or those of the system if there are none.
func clientTLS(host string, v verification, ca []byte) *tls.Config {
	config := &tls.Config{
		ServerName:         host,
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection below verifies, as much as v says: crypto/tls knows all or nothing
	}
	if v != verifyNothing {
		config.VerifyConnection = func(state tls.ConnectionState) error { return verifyCertificate(state, host, v, ca) }
	}
	return config
}

func verifyCertificate(state tls.ConnectionState, host string, v verification, ca []byte) error {
	options := x509.VerifyOptions{Intermediates: x509.NewCertPool()}
	if ca != nil {
		options.Roots = x509.NewCertPool()
		options.Roots.AppendCertsFromPEM(ca)
	}
	for _, certificate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	leaf := state.PeerCertificates[0]
	if _, err := leaf.Verify(options); err != nil {
		return err
	}
	if v == verifyFull {
		return leaf.VerifyHostname(host)
	}
	return nil
}

// handshakeError marks what went wrong between the connection and the protocol.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// handshake makes conn a TLS connection, or closes it.
func handshake(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &handshakeError{err}
	}
	return secure, nil
}

// handshakeFailed tells a certificate that does not verify from a server that went away.
func handshakeFailed(err error) Result {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		noTLS     tls.RecordHeaderError
		message   string
	)
	switch {
	case errors.As(err, &authority):
		message = "no trusted authority has signed the server's certificate; give that authority's certificate in the Secret"
	case errors.As(err, &hostname):
		message = "the server's certificate is made out to other names than this host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		message = "the server's certificate has expired, or is not valid yet"
	case errors.As(err, &noTLS):
		message = "the server does not speak TLS"
	case disconnected(err):
		return unreachable()
	default:
		message = "the server and the operator agree on no way to verify each other"
	}
	return Result{Reason: v1alpha1.ReasonTLSVerificationFailed, Message: message}
}

// disconnected is true for errors of the connection rather than of what was said on it.
func disconnected(err error) bool {
	var network net.Error
	if _, alert := errors.AsType[tls.AlertError](err); alert { // which comes wrapped in a net.OpError
		return false
	}
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
