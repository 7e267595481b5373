// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"crypto/tls"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Session connects to the primary of a postgres endpoint by the rules of a probe, and closes the connection after use has
// returned. The context's deadline holds for everything, and what use waits for ends with the context that it is given:
// with several hosts, each has its share of the time.
//
// An error is an *Error that tells why there is no connection, or what use returned.
func (p *Prober) Session(ctx context.Context, endpoint Endpoint, use func(context.Context, *pgconn.PgConn) error) error {
	if endpoint.Driver() != v1alpha1.DriverPostgres {
		return &Error{Reason: v1alpha1.ReasonInvalidSpec, Message: "the driver is not postgres"}
	}
	var used error
	result := eachHost(ctx, endpoint.get().hosts, postgresPort, func(ctx context.Context, host HostPort) Result {
		conn, result := connectPostgres(ctx, p.network, endpoint.get(), host)
		if conn != nil {
			used = use(ctx, conn)
			_ = conn.Close(ctx)
		}
		return result
	})
	if result.Valid() {
		return used
	}
	return &Error{Reason: result.Reason, Message: result.Message}
}

// connectPostgres returns a connection to a server that takes writes, or the reason why there is none.
func connectPostgres(ctx context.Context, n network, p *parsed, host HostPort) (*pgconn.PgConn, Result) {
	var result Result
	for _, config := range postgresSecurity(p, host.Host) {
		attempt := postgresAttempt{network: n, parsed: p, host: host, tls: config, accept: acceptPrimary}
		c, err := attempt.config()
		if err != nil {
			return nil, Result{Reason: v1alpha1.ReasonInternalError, Message: "the operator's environment has settings for PostgreSQL that cannot be read"}
		}
		conn, err := pgconn.ConnectConfig(ctx, c)
		if err == nil {
			return conn, Result{Reason: v1alpha1.ReasonValidated}
		}
		if result = attempt.failed(err); result.Reason == v1alpha1.ReasonServerNotReady {
			result.Message = "the server does not take writes now"
		}
		if !attempt.another {
			break
		}
	}
	return nil, result
}

// postgresSecurity lists what sslmode tries, in order: with TLS, without it (nil), or the one after the other.
func postgresSecurity(p *parsed, host string) []*tls.Config {
	secure := postgresTLS(p, host)
	switch postgresMode(p) {
	case "disable":
		return []*tls.Config{nil}
	case "allow":
		return []*tls.Config{nil, secure}
	case "prefer":
		return []*tls.Config{secure, nil}
	}
	return []*tls.Config{secure}
}
