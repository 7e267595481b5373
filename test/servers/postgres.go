// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresOptions are what a server differs in. The zero value is one without TLS that asks everybody for a password.
type PostgresOptions struct {
	// Certificate and Key, in PEM, turn TLS on.
	Certificate, Key []byte
	// Access replaces the rules of pg_hba.conf.
	Access []string
	// Settings of postgresql.conf, such as "max_connections=10".
	Settings []string
}

// PostgresServer is a server that runs.
type PostgresServer struct {
	// Port on localhost, 127.0.0.1 and, where there is one, ::1.
	Port int
	// Password of the superuser, "postgres".
	Password string
	// Log is what the server has printed so far.
	Log func() string
}

// Postgres starts a server.
func Postgres(tb testing.TB, options PostgresOptions) *PostgresServer {
	tb.Helper()
	initdb, postgres := program(tb, "initdb"), program(tb, "postgres")
	as := unprivileged(tb)
	dir := as.directory(tb)
	data := filepath.Join(dir, "data")
	s := &PostgresServer{Password: "superuser-password"}

	password := as.file(tb, filepath.Join(dir, "password"), []byte(s.Password))
	if out, err := as.command(dir, initdb, "--pgdata="+data, "--username=postgres", "--pwfile="+password, "--auth=scram-sha-256",
		"--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions").CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	access := options.Access
	if access == nil {
		access = []string{"host all all all scram-sha-256"} //nolint:dupword // databases, users, addresses
	}
	as.file(tb, filepath.Join(data, "pg_hba.conf"), []byte(strings.Join(access, "\n")+"\n"))
	s.Port = freePort(tb) // as late as can be: others look for one too
	arguments := []string{
		"-D", data, "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=localhost", "-c", "unix_socket_directories=",
		"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "logging_collector=off",
	}
	if options.Certificate != nil {
		certificate := as.file(tb, filepath.Join(dir, "server.crt"), options.Certificate)
		key := as.file(tb, filepath.Join(dir, "server.key"), options.Key)
		arguments = append(arguments, "-c", "ssl=on", "-c", "ssl_cert_file="+certificate, "-c", "ssl_key_file="+key)
	}
	for _, setting := range options.Settings {
		arguments = append(arguments, "-c", setting)
	}
	s.Log = serve(tb, as.command(dir, postgres, arguments...), "database system is ready to accept connections")
	return s
}

// Exec runs statements as the superuser, each on its own.
func (s *PostgresServer) Exec(tb testing.TB, statements ...string) {
	tb.Helper()
	conn, err := pgconn.Connect(tb.Context(), "host=127.0.0.1 port="+strconv.Itoa(s.Port)+" user=postgres password="+s.Password+" dbname=postgres")
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(tb.Context())
	for _, sql := range statements {
		if _, err := conn.Exec(tb.Context(), sql).ReadAll(); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
}

// Literal quotes a value for SQL.
func Literal(value string) string { return "'" + strings.ReplaceAll(value, "'", "''") + "'" }

// Psql runs SQL with PostgreSQL's own client and returns what it prints, unaligned and without headers.
func Psql(tb testing.TB, uri, sql string) (string, error) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), program(tb, "psql"), "--no-psqlrc", "--no-password", "--tuples-only", "--no-align", "--command="+sql, uri)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
