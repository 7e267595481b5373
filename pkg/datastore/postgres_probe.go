// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

func (postgres) probe(ctx context.Context, n network, p *parsed) Result {
	accept := sessionAttributes[p.option("target_session_attrs")]
	result := eachHost(ctx, p.hosts, postgresPort, func(ctx context.Context, host HostPort) Result {
		return probePostgres(ctx, n, p, host, accept)
	})
	if p.option("target_session_attrs") == "prefer-standby" && result.serverDown() {
		result = eachHost(ctx, p.hosts, postgresPort, func(ctx context.Context, host HostPort) Result {
			return probePostgres(ctx, n, p, host, nil)
		})
	}
	return result
}

// probePostgres connects as libpq does: sslmode says whether with TLS, without it, or with the one if the other fails.
func probePostgres(ctx context.Context, n network, p *parsed, host HostPort, accept pgconn.ValidateConnectFunc) Result {
	var result Result
	for _, config := range postgresSecurity(p, host.Host) {
		attempt := postgresAttempt{network: n, parsed: p, host: host, tls: config, accept: accept}
		if result = attempt.run(ctx); !attempt.another {
			break
		}
	}
	return result
}

// postgresTLS gives each sslmode libpq's meaning. "require" and weaker verify the authority if there is one to verify by,
// which libpq documents for require and does for all.
func postgresTLS(p *parsed, host string) *tls.Config {
	v := verifyNothing
	switch mode := postgresMode(p); {
	case mode == "verify-full":
		v = verifyFull
	case mode == "verify-ca" || p.ca != nil:
		v = verifyChain
	}
	config := clientTLS(host, v, p.ca)
	config.NextProtos = []string{"postgresql"}
	if p.option("sslsni") == "0" {
		config.ServerName = ""
	}
	versions := map[string]uint16{"TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13}
	if version, given := versions[p.option("ssl_min_protocol_version")]; given {
		config.MinVersion = version
	}
	config.MaxVersion = versions[p.option("ssl_max_protocol_version")]
	return config
}

// postgresAttempt is one connection, with or without TLS.
type postgresAttempt struct {
	network network
	parsed  *parsed
	host    HostPort
	tls     *tls.Config
	accept  pgconn.ValidateConnectFunc

	conn    *boundConn
	login   *loginReader
	another bool // the result may be different with TLS instead of without, or the other way round
}

func (a *postgresAttempt) run(ctx context.Context) Result {
	config, err := a.config()
	if err != nil {
		return Result{Reason: v1alpha1.ReasonInternalError, Message: "the operator's environment has settings for PostgreSQL that cannot be read"}
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return a.failed(err)
	}
	defer a.conn.Close()
	defer conn.Close(ctx)
	return askPostgres(ctx, conn)
}

// blankConfig is the only way to a pgconn.Config. Everything in it that comes from the environment, the home directory or
// the system's user is overwritten here or by config.
var blankConfig = sync.OnceValues(func() (*pgconn.Config, error) {
	return pgconn.ParseConfig("host=none port=1 user=none password=none dbname=none passfile='' sslmode=disable sslcert='' sslkey='' " +
		"sslrootcert='' sslpassword='' sslcertmode=allow sslsni=1 sslnegotiation=postgres target_session_attrs=any connect_timeout=0 " +
		"min_protocol_version=3.0 max_protocol_version=3.0 channel_binding=prefer require_auth=''")
})

func (a *postgresAttempt) config() (*pgconn.Config, error) {
	blank, err := blankConfig()
	if err != nil {
		return nil, err
	}
	p, c := a.parsed, blank.Copy()
	c.Host, c.Port = a.host.Host, a.host.Port
	c.User, c.Password, c.Database = p.user, p.password, p.database
	c.TLSConfig, c.Fallbacks = a.tls, nil
	c.SSLNegotiation = p.option("sslnegotiation")
	c.ChannelBinding = p.option("channel_binding")
	c.RequireAuth = p.option("require_auth")
	c.MinProtocolVersion, c.MaxProtocolVersion = p.option("min_protocol_version"), p.option("max_protocol_version")
	if c.MaxProtocolVersion == "" {
		c.MaxProtocolVersion = c.MinProtocolVersion
	}
	c.ConnectTimeout = 0
	c.KerberosSrvName, c.KerberosSpn = "", ""
	c.RuntimeParams = map[string]string{"application_name": applicationName}
	if options := p.option("options"); options != "" {
		c.RuntimeParams["options"] = options
	}
	c.MaxProtocolMessageBodyLen = maxPostgresMessage
	c.ValidateConnect = a.accept
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // dial does it
	c.DialFunc = a.dial
	c.AfterNetConnect = a.handshake
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		a.login = &loginReader{Reader: r}
		return pgproto3.NewFrontend(a.login, w)
	}
	return c, nil
}

// dial connects once. When a query does not end, pgconn would connect again to cancel it, for a quarter of a minute.
func (a *postgresAttempt) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if a.conn != nil {
		return nil, errRefused
	}
	conn, err := a.network.dial(ctx, a.host)
	if err != nil {
		return nil, err
	}
	a.conn, _ = conn.(*boundConn)
	return conn, nil
}

// handshake is early, so that its errors can be told from those of the protocol.
func (*postgresAttempt) handshake(ctx context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return conn, nil
	}
	if err := secure.HandshakeContext(ctx); err != nil {
		return conn, &handshakeError{err}
	}
	return conn, nil
}

// askPostgres makes sure that there is a database behind the login: a pooler lets in on its own.
func askPostgres(ctx context.Context, conn *pgconn.PgConn) Result {
	if _, err := conn.Exec(ctx, "select 1").ReadAll(); err != nil {
		if server, ok := errors.AsType[*pgconn.PgError](err); ok {
			result, _ := postgresError(server.Code)
			return result
		}
		return unreachable()
	}
	result := Result{Reason: v1alpha1.ReasonValidated, Message: "the server accepts the credentials"}
	result.Superuser = conn.ParameterStatus("is_superuser") == "on"
	result.SizeBytes = databaseSize(ctx, conn)
	return result
}

// databaseSize is nil if it takes long, as it does with very many tables, or is not permitted.
func databaseSize(ctx context.Context, conn *pgconn.PgConn) *int64 {
	results, err := conn.Exec(ctx, "begin read only; set local statement_timeout = 1000; "+
		"select pg_database_size(current_database()); commit").ReadAll()
	if err != nil || len(results) < 3 || len(results[2].Rows) != 1 || len(results[2].Rows[0]) != 1 {
		return nil
	}
	size, err := strconv.ParseInt(string(results[2].Rows[0][0]), 10, 64)
	if err != nil {
		return nil
	}
	return &size
}
