// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// driver is how one kind of connection string is read and tried.
type driver interface {
	// parse fills in what the text says. Its errors are *Error.
	parse(text string, into *parsed) error
	// probe tries one endpoint within the context's deadline.
	probe(ctx context.Context, n network, p *parsed) Result
}

// driverFor is the one list of drivers.
func driverFor(name v1alpha1.Driver) driver {
	switch name {
	case v1alpha1.DriverPostgres:
		return postgres{}
	case v1alpha1.DriverRedis, v1alpha1.DriverValkey:
		return redis{}
	case v1alpha1.DriverS3, v1alpha1.DriverMinIO, v1alpha1.DriverGarage:
		return objectStore{}
	case v1alpha1.DriverNATS:
		return nats{}
	case v1alpha1.DriverSQLite, v1alpha1.DriverFS, v1alpha1.DriverMemory:
		return local{}
	}
	return nil
}

// maxLength of a connection string. Real ones are a few hundred bytes.
const maxLength = 16 << 10

// Parse reads a connection string for a driver. The certificate authorities, if any, are those that the server's
// certificate must come from. Line breaks at the end of the connection string are not part of it, as files and
// "kubectl create secret --from-file" have them; those of a password are percent-encoded and stay.
//
// The error is an *Error, and says nothing of what the connection string contains.
func Parse(name v1alpha1.Driver, connectionString string, ca []byte) (Endpoint, error) {
	d := driverFor(name)
	if d == nil {
		return Endpoint{}, &Error{Reason: v1alpha1.ReasonInvalidSpec, Message: "the driver is none that this operator knows"}
	}
	text := strings.TrimRight(connectionString, "\r\n")
	switch {
	case text == "":
		return Endpoint{}, invalid("the connection string is empty")
	case len(text) > maxLength:
		return Endpoint{}, invalid("the connection string is longer than 16 KiB")
	case strings.ContainsRune(text, 0):
		return Endpoint{}, errNUL
	}
	p := &parsed{driver: name, trimmed: len(text) < len(connectionString)}
	if len(ca) > 0 {
		certificates, err := certificatesOnly(ca)
		if err != nil {
			return Endpoint{}, err
		}
		p.ca = certificates
	}
	if err := d.parse(text, p); err != nil {
		return Endpoint{}, err
	}
	return Endpoint{parsed: func() *parsed { return p }}, nil
}

// certificatesOnly keeps the certificates of a PEM file. Anything else in it, such as a private key that came along,
// must not reach those who get the endpoint.
func certificatesOnly(ca []byte) ([]byte, error) {
	unusable := &Error{Reason: v1alpha1.ReasonInvalidCertificateAuthority, Message: "the certificate authority is not a certificate in PEM"}
	var kept bytes.Buffer
	for block, rest := pem.Decode(ca); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, unusable
		}
		kept.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
	if kept.Len() == 0 {
		return nil, unusable
	}
	return kept.Bytes(), nil
}

// hostName is looser than DNS in one way: container networks have names with underscores.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)

// checkHost accepts host names and IP addresses without brackets and zones.
func checkHost(host string) error {
	switch {
	case host == "":
		return errNoHost
	case host[0] == '/' || host[0] == '@':
		return errSocket
	case hostName.MatchString(host):
		return nil
	}
	if address, err := netip.ParseAddr(host); err != nil || address.Zone() != "" {
		return errHost
	}
	return nil
}

func parsePort(port string) (uint16, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strings.HasPrefix(port, "+") {
		return 0, errPort
	}
	return uint16(n), nil
}
