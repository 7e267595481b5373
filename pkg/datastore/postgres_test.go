// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/test/servers"
)

func parse(t *testing.T, driver v1alpha1.Driver, text string, ca []byte) datastore.Endpoint {
	t.Helper()
	e, err := datastore.Parse(driver, text, ca)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func probe(t *testing.T, driver v1alpha1.Driver, text string, ca []byte) datastore.Result {
	t.Helper()
	result := datastore.NewProber(datastore.ProberOptions{}).Probe(t.Context(), parse(t, driver, text, ca))
	if out := fmt.Sprintf("%#v", result); strings.Contains(out, "hunter2") || strings.Contains(out, "secret") {
		t.Errorf("the result holds a secret: %s", out)
	}
	return result
}

func expect(t *testing.T, got datastore.Result, reason string) {
	t.Helper()
	if got.Reason != reason {
		t.Errorf("got %s (%s), want %s", got.Reason, got.Message, reason)
	}
}

func TestPostgresAnswers(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{
		Access: []string{
			"host all nobody all reject", "host all gss all gss include_realm=0", "host all plain all password",
			"host all all all scram-sha-256", //nolint:dupword // databases, users, addresses
		},
		Settings: []string{"max_connections=8"},
	})
	server.Exec(t, "create role app login password 'secret'", "create role plain login password 'secret'", "create role nobody login",
		"create role crowded login password 'secret' connection limit 0",
		"create database bank owner app", "create database private", "revoke connect on database private from public")
	at := fmt.Sprintf("127.0.0.1:%d", server.Port)

	t.Run("yes", func(t *testing.T) {
		got := probe(t, pg, "postgres://app:secret@"+at+"/bank", nil)
		expect(t, got, v1alpha1.ReasonValidated)
		if !got.Valid() || got.Superuser || got.SizeBytes == nil || *got.SizeBytes < 1<<20 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("yes, to a superuser, and says so", func(t *testing.T) {
		got := probe(t, pg, "postgres://postgres:"+server.Password+"@"+at, nil)
		if expect(t, got, v1alpha1.ReasonValidated); !got.Superuser {
			t.Error("the user is not reported as a superuser")
		}
	})
	for name, test := range map[string]struct{ text, reason string }{
		"in the keyword form":                         {"host=127.0.0.1 port=%d user=app password=secret dbname=bank", v1alpha1.ReasonValidated},
		"with a clear text password":                  {"postgres://plain:secret@127.0.0.1:%d/bank", v1alpha1.ReasonValidated},
		"with options":                                {"postgres://app:secret@127.0.0.1:%d/bank?options=-c%%20search_path%%3Dx", v1alpha1.ReasonValidated},
		"with options of other clients":               {"postgres://app:secret@127.0.0.1:%d/bank?pool_max_conns=5", v1alpha1.ReasonValidated},
		"a second host if the first is dead":          {"postgres://app:secret@127.0.0.1:1,127.0.0.1:%d/bank", v1alpha1.ReasonValidated},
		"a primary":                                   {"postgres://app:secret@127.0.0.1:%d/bank?target_session_attrs=primary", v1alpha1.ReasonValidated},
		"no standby":                                  {"postgres://app:secret@127.0.0.1:%d/bank?target_session_attrs=standby", v1alpha1.ReasonServerNotReady},
		"a primary where a standby is preferred":      {"postgres://app:secret@127.0.0.1:%d/bank?target_session_attrs=prefer-standby", v1alpha1.ReasonValidated},
		"a wrong password":                            {"postgres://app:hunter2@127.0.0.1:%d/bank", v1alpha1.ReasonAuthenticationFailed},
		"no password":                                 {"postgres://app@127.0.0.1:%d/bank", v1alpha1.ReasonAuthenticationFailed},
		"a user that does not exist":                  {"postgres://hunter2:secret@127.0.0.1:%d/bank", v1alpha1.ReasonAuthenticationFailed},
		"a user that the rules refuse":                {"postgres://nobody:secret@127.0.0.1:%d/bank", v1alpha1.ReasonAuthenticationFailed},
		"a database that does not exist":              {"postgres://app:secret@127.0.0.1:%d/nothing", v1alpha1.ReasonDatabaseNotFound},
		"a database that the user may not enter":      {"postgres://app:secret@127.0.0.1:%d/private", v1alpha1.ReasonPermissionDenied},
		"a user without connections":                  {"postgres://crowded:secret@127.0.0.1:%d/bank", v1alpha1.ReasonTooManyConnections},
		"a weaker authentication than is asked for":   {"postgres://plain:hunter2@127.0.0.1:%d/bank?require_auth=scram-sha-256", v1alpha1.ReasonAuthenticationFailed},
		"an authentication that the operator has not": {"postgres://gss:hunter2@127.0.0.1:%d/bank", v1alpha1.ReasonAuthenticationFailed},
		"channel binding where there is no TLS":       {"postgres://app:hunter2@127.0.0.1:%d/bank?channel_binding=require", v1alpha1.ReasonAuthenticationFailed},
		"TLS where there is none":                     {"postgres://app:secret@127.0.0.1:%d/bank?sslmode=require", v1alpha1.ReasonTLSVerificationFailed},
		"verified TLS where there is none":            {"postgres://app:secret@127.0.0.1:%d/bank?sslmode=verify-full", v1alpha1.ReasonTLSVerificationFailed},
		"TLS from the first byte where there is none": {"postgres://app:secret@127.0.0.1:%d/bank?sslmode=require&sslnegotiation=direct", v1alpha1.ReasonUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, probe(t, pg, fmt.Sprintf(test.text, server.Port), nil), test.reason)
		})
	}
}

// FR-19: what is stored works in PostgreSQL's own client, byte for byte.
func TestPostgresPasswordsOfEveryKind(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	for i, password := range []string{commaPassword, urlPassword, `it's \ "quoted"`, "line\nbreak", "ünï🔑"} {
		user, database := fmt.Sprintf("user %d", i), fmt.Sprintf("data/base %d", i)
		server.Exec(t, fmt.Sprintf(`create role "%s" login password %s`, user, servers.Literal(password)))
		server.Exec(t, fmt.Sprintf(`create database "%s"`, database))

		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
		for _, text := range []string{
			fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s", url.UserPassword(user, password), server.Port, url.PathEscape(database)),
			fmt.Sprintf("host=127.0.0.1 port=%d user='%s' password='%s' dbname='%s'", server.Port, user, quoted, database),
		} {
			e := parse(t, pg, text+"\n", nil)
			if got := string(e.Parts()[datastore.KeyPassword]); got != password {
				t.Errorf("the password of %s is %q, want %q", text, got, password)
			}
			expect(t, probe(t, pg, text, nil), v1alpha1.ReasonValidated)
			if out, err := servers.Psql(t, e.URI(), "select current_user || ' in ' || current_database()"); err != nil || out != user+" in "+database {
				t.Errorf("psql with %s: %v, %s", e.URI(), err, out)
			}
		}
	}
}

func TestReadOnlyURIBeginsReadOnlySessions(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	for _, options := range []string{"", "?options=-c%20search_path%3Dx%2C%5C%20y"} {
		e := parse(t, pg, fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres%s", server.Password, server.Port, options), nil)
		uri, _ := e.ReadOnlyURI()
		if out, err := servers.Psql(t, uri, "create table t ()"); err == nil || !strings.Contains(out, "read-only transaction") {
			t.Errorf("psql may write: %v, %s", err, out)
		}
		if out, err := servers.Psql(t, uri, "show search_path"); err != nil || options != "" && out != "x, y" {
			t.Errorf("psql lost the other option: %v, %s", err, out)
		}
		expect(t, probe(t, pg, uri, nil), v1alpha1.ReasonValidated)
	}
}

// FR-23, and beside it what psql says of the same.
func TestPostgresTLSModes(t *testing.T) {
	t.Parallel()
	authority, other := servers.NewAuthority(t), servers.NewAuthority(t)
	certificate, key := authority.Certificate(t, "localhost") // and not 127.0.0.1
	server := servers.Postgres(t, servers.PostgresOptions{Certificate: certificate, Key: key, Access: []string{
		"hostssl all secure all scram-sha-256", "hostnossl all insecure all scram-sha-256", "host all postgres all scram-sha-256",
	}})
	server.Exec(t, "create role secure login password 'secret'", "create role insecure login password 'secret'")

	const (
		ok     = v1alpha1.ReasonValidated
		failed = v1alpha1.ReasonTLSVerificationFailed
		denied = v1alpha1.ReasonAuthenticationFailed
	)
	right, wrong := authority.PEM, other.PEM
	dir := t.TempDir()
	for _, test := range []struct {
		user, host, mode string
		ca               []byte
		want             string
	}{
		{"secure", "localhost", "verify-full", nil, failed}, // psql fails too: it has no file of authorities
		{"secure", "localhost", "verify-full", right, ok},
		{"secure", "localhost", "verify-full", wrong, failed},
		{"secure", "127.0.0.1", "verify-full", right, failed},
		{"secure", "localhost", "verify-ca", nil, failed},
		{"secure", "127.0.0.1", "verify-ca", right, ok},
		{"secure", "127.0.0.1", "verify-ca", wrong, failed},
		{"secure", "127.0.0.1", "require", nil, ok},
		{"secure", "127.0.0.1", "require", right, ok},
		{"secure", "127.0.0.1", "require", wrong, failed},
		{"secure", "127.0.0.1", "prefer", nil, ok},
		{"secure", "127.0.0.1", "", nil, ok},
		{"secure", "127.0.0.1", "prefer", right, ok},
		{"secure", "127.0.0.1", "prefer", wrong, denied}, // libpq goes on without TLS, and this user may not
		{"insecure", "127.0.0.1", "prefer", wrong, ok},
		{"secure", "127.0.0.1", "allow", nil, ok},
		{"insecure", "127.0.0.1", "allow", nil, ok},
		{"insecure", "127.0.0.1", "prefer", nil, ok},
		{"secure", "127.0.0.1", "allow", wrong, failed},
		{"secure", "127.0.0.1", "disable", nil, denied},
		{"insecure", "127.0.0.1", "disable", nil, ok},
		{"insecure", "localhost", "verify-full", right, denied},
		{"insecure", "127.0.0.1", "require", nil, denied},
		{"secure", "localhost", "verify-full&channel_binding=require", right, ok},
		{"secure", "localhost", "verify-full&sslsni=0&ssl_min_protocol_version=TLSv1.3", right, ok},
	} {
		name := fmt.Sprintf("%s as %s at %s with %d bytes of authority", test.mode, test.user, test.host, len(test.ca))
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("postgres://%s:secret@%s:%d/postgres", test.user, test.host, server.Port)
			if test.mode != "" {
				text += "?sslmode=" + test.mode
			}
			expect(t, probe(t, pg, text, test.ca), test.want)

			if test.ca != nil {
				file := filepath.Join(dir, "ca.crt")
				if err := os.WriteFile(file, test.ca, 0o600); err != nil {
					t.Fatal(err)
				}
				text += "&sslrootcert=" + file
			}
			out, err := servers.Psql(t, text, "select 1")
			if (err == nil) != (test.want == ok) {
				t.Errorf("psql says otherwise: %v, %s", err, out)
			}
		})
	}
}

func TestPostgresIgnoresTheEnvironment(t *testing.T) {
	server := servers.Postgres(t, servers.PostgresOptions{})
	server.Exec(t, "create role app login password 'secret'")
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".pgpass"), []byte("*:*:*:*:"+server.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"HOME": home, "PGPASSFILE": filepath.Join(home, ".pgpass"), "PGPASSWORD": server.Password, "PGUSER": "postgres", "PGDATABASE": "nothing",
		"PGHOST": "192.0.2.1", "PGPORT": "1", "PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/nonexistent", "PGSSLCERT": "/nonexistent",
		"PGSSLKEY": "/nonexistent", "PGOPTIONS": "--nonsense", "PGAPPNAME": "somebody", "PGCONNECT_TIMEOUT": "1", "PGTZ": "nowhere",
		"PGTARGETSESSIONATTRS": "standby", "PGSSLNEGOTIATION": "direct", "PGCHANNELBINDING": "require", "PGREQUIREAUTH": "none",
		"PGMINPROTOCOLVERSION": "3.2", "PGSSLSNI": "0", "PGSSLCERTMODE": "require",
	} {
		t.Setenv(name, value)
	}
	expect(t, probe(t, pg, fmt.Sprintf("postgres://app:secret@127.0.0.1:%d/postgres", server.Port), nil), v1alpha1.ReasonValidated)
	expect(t, probe(t, pg, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", server.Port), nil), v1alpha1.ReasonAuthenticationFailed)
}

// A client that believed this server would compute for minutes, whatever its deadline.
func TestPostgresServersAreNotTrusted(t *testing.T) {
	for name, test := range map[string]struct {
		challenge func(nonce string) string
		reason    string
	}{
		"a costly computation":   {func(nonce string) string { return "r=" + nonce + "x,s=c2FsdA==,i=9999999" }, v1alpha1.ReasonAuthenticationFailed},
		"an endless computation": {func(nonce string) string { return "r=" + nonce + "x,s=c2FsdA==,i=99999999999999999999" }, v1alpha1.ReasonAuthenticationFailed},
		"a long message":         {func(string) string { return strings.Repeat("x", 1<<20) }, v1alpha1.ReasonAuthenticationFailed},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				backend := pgproto3.NewBackend(conn, conn)
				if _, err := backend.ReceiveStartupMessage(); err != nil {
					return
				}
				backend.Send(&pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256"}})
				_ = backend.Flush()
				_ = backend.SetAuthType(pgproto3.AuthTypeSASL)
				message, err := backend.Receive()
				if err != nil {
					return
				}
				_, nonce, _ := strings.Cut(string(message.(*pgproto3.SASLInitialResponse).Data), "r=")
				backend.Send(&pgproto3.AuthenticationSASLContinue{Data: []byte(test.challenge(nonce))})
				_ = backend.Flush()
				_, _ = backend.Receive()
			}()
			start := time.Now()
			expect(t, probe(t, pg, "postgres://u:secret@"+l.Addr().String()+"?sslmode=disable", nil), test.reason)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}
