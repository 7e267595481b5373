// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"bufio"
	"bytes"
	"context"
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// nats is NATS, whose servers greet with one line before anybody says who they are.
type nats struct{}

const natsPort = 4222

// parse accepts one URL with several hosts, and what NATS clients take: several URLs, separated by commas.
func (nats) parse(text string, into *parsed) error {
	for i, item := range splitURLs(text) {
		u, err := parseURI(item, "nats", "tls")
		if err != nil {
			return err
		}
		switch {
		case len(u.hosts) == 0:
			return errNoHost
		case u.path != "":
			return invalid("the connection string has a path, and NATS has nothing to find there")
		case i == 0:
			into.scheme, into.user, into.password, into.options = u.scheme, u.user, u.password, u.options
		case u.scheme != into.scheme, len(u.options) > 0,
			(u.user != "" || u.password != "") && (u.user != into.user || u.password != into.password):
			return invalid("the URLs in the connection string differ in more than their hosts")
		}
		into.hosts = append(into.hosts, u.hosts...)
	}
	return nil
}

// splitURLs splits at the commas before a scheme.
func splitURLs(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if len(items) > 0 && schemeOf(item) == "" {
			items[len(items)-1] += "," + item
		} else {
			items = append(items, item)
		}
	}
	return items
}

// probe reads the greeting. Credentials are not tried: NATS has many kinds, most of which no URL can hold.
func (nats) probe(ctx context.Context, n network, p *parsed) Result {
	return eachHost(ctx, p.hosts, natsPort, func(ctx context.Context, host HostPort) Result {
		conn, err := n.dial(ctx, host)
		if err != nil {
			return unreachable()
		}
		defer conn.Close()
		greeting, err := bufio.NewReaderSize(conn, 32<<10).ReadSlice('\n')
		if err != nil || !bytes.HasPrefix(greeting, []byte("INFO ")) {
			return unreachable()
		}
		if p.scheme == "tls" {
			if _, err := handshake(ctx, conn, clientTLS(host.Host, verifyFull, p.ca)); err != nil {
				return handshakeFailed(err)
			}
		}
		return Result{Reason: v1alpha1.ReasonValidated, Message: "the server answers; its credentials are not tried"}
	})
}
