// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// objectStore is S3 and what speaks like it: MinIO and Garage. Its connection string is the URL of the endpoint, with the
// access key and the secret key as user and password, and the bucket as path.
type objectStore struct{}

func (objectStore) parse(text string, into *parsed) error {
	u, err := parseURI(text, "https", "http")
	if err != nil {
		return err
	}
	switch len(u.hosts) {
	case 0:
		return errNoHost
	case 1:
	default:
		return invalid("the connection string names several hosts, and an object store has one endpoint")
	}
	into.scheme, into.user, into.password, into.hosts, into.options = u.scheme, u.user, u.password, u.hosts, u.options
	if path := strings.TrimSuffix(u.path, "/"); strings.Contains(path, "/") {
		into.path = path
	} else {
		into.database = decode(path)
	}
	return nil
}

// probe asks for the root without credentials: signing a request right takes a region and an addressing style that a
// connection string need not have, and any answer in HTTP shows that the endpoint is there.
func (objectStore) probe(ctx context.Context, n network, p *parsed) Result {
	port := uint16(80)
	if p.scheme == "https" {
		port = 443
	}
	return eachHost(ctx, p.hosts, port, func(ctx context.Context, host HostPort) Result {
		transport := &http.Transport{
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return n.dial(ctx, host)
			},
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := n.dial(ctx, host)
				if err != nil {
					return nil, err
				}
				return handshake(ctx, conn, clientTLS(host.Host, verifyFull, p.ca))
			},
		}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(ctx, http.MethodHead, p.scheme+"://"+host.String()+"/", http.NoBody)
		if err != nil {
			return unreachable()
		}
		request.Header.Set("User-Agent", applicationName)
		response, err := transport.RoundTrip(request) // follows no redirects
		var failed *handshakeError
		switch {
		case errors.As(err, &failed):
			return handshakeFailed(err)
		case err != nil:
			return unreachable()
		}
		response.Body.Close()
		switch response.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return Result{Reason: v1alpha1.ReasonServerNotReady, Message: "a proxy answers that the server behind it does not"}
		}
		return Result{Reason: v1alpha1.ReasonValidated, Message: "the endpoint answers; its credentials are not tried"}
	})
}
