// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The files that WriteCertificate writes.
const (
	CertificateFile = "tls.crt"
	KeyFile         = "tls.key"
)

// WriteCertificate writes a self-signed certificate for some host names and IP addresses, and its key, into a directory. It is
// its own authority, and good for either side of a connection. It is valid for a year from a time on.
func WriteCertificate(dir string, from time.Time, hosts ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(from.UnixNano()), Subject: pkix.Name{CommonName: "FormSpec Cluster Control, self-signed"},
		NotBefore: from.Add(-time.Hour), NotAfter: from.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the private key: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		writePEM(filepath.Join(dir, KeyFile), 0o600, "PRIVATE KEY", private),
		writePEM(filepath.Join(dir, CertificateFile), 0o644, "CERTIFICATE", certificate),
	)
}

func writePEM(name string, mode fs.FileMode, kind string, der []byte) error {
	var text bytes.Buffer
	if err := pem.Encode(&text, &pem.Block{Type: kind, Bytes: der}); err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return os.WriteFile(name, text.Bytes(), mode)
}

// ServingTLS returns the TLS configuration for a certificate in files. With clientCAFile, clients need a certificate that an authority in
// it has signed.
func ServingTLS(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load the certificate: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	if clientCAFile == "" {
		return config, nil
	}
	authorities, err := os.ReadFile(clientCAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of clients: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s has no certificate in PEM", clientCAFile)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}
