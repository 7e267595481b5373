// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	"github.com/formspec/formspec-operator/test/servers"
)

const (
	readOnly  = v1alpha1.PermissionReadOnly
	readWrite = v1alpha1.PermissionReadWrite

	adminPassword = "admin-password"
)

var manager = roles.NewManager(datastore.NewProber(datastore.ProberOptions{}))

// passwords are all that any test has used.
var passwords sync.Map

func newPassword() string {
	password := roles.NewPassword()
	passwords.Store(password, true)
	return password
}

// place is a database of its own on a server that tests share, and who manages roles there.
type place struct {
	t        *testing.T
	server   *servers.PostgresServer
	database string
	admin    datastore.Endpoint
}

// everywhere runs a test as each kind of user that may manage roles.
func everywhere(t *testing.T, server *servers.PostgresServer, name string, test func(*place)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		for _, superuser := range []bool{true, false} {
			kind := map[bool]string{true: "as a superuser", false: "as the owner of the database with CREATEROLE"}[superuser]
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				test(newPlace(t, server, "bank of "+t.Name(), superuser))
			})
		}
	})
}

// newPlace makes a database, and a user with just what managing its roles takes.
func newPlace(t *testing.T, server *servers.PostgresServer, name string, superuser bool) *place {
	t.Helper()
	name = roles.Login{Workspace: name}.Owner() // short, and unlike that of any other test
	p := &place{t: t, server: server, database: name + `"db'; --`}
	user := `ad"min ` + name
	attributes := "createrole"
	if superuser {
		attributes = "superuser"
	}
	run(t, root(t, server, "postgres"),
		"create role "+quoted(user)+" login "+attributes+" password "+servers.Literal(adminPassword),
		"create database "+quoted(p.database)+" owner "+quoted(user))
	run(t, p.root(t), "revoke create on schema public from public") // as it is from PostgreSQL 15 on
	p.admin = root(t, server, p.database).WithLogin(user, adminPassword)
	return p
}

// root is the server's superuser in the place's database.
func (p *place) root(t *testing.T) datastore.Endpoint {
	t.Helper()
	return root(t, p.server, p.database)
}

// login is one for a workspace of this place alone.
func (p *place) login(workspace, claim string, permission v1alpha1.Permission) roles.Login {
	return roles.Login{
		Namespace: p.database, Datastore: "main", Workspace: workspace, Claim: claim, UID: types.UID("uid of " + claim),
		Permission: permission, Password: newPassword(),
	}
}

func (p *place) ensure(t *testing.T, login roles.Login) datastore.Endpoint {
	t.Helper()
	endpoint, err := manager.Ensure(t.Context(), p.admin, login)
	if err != nil {
		t.Fatalf("ensure %s: %v", login, err)
	}
	return endpoint
}

func (p *place) drop(t *testing.T, login roles.Login) {
	t.Helper()
	if err := manager.Drop(t.Context(), p.admin, login); err != nil {
		t.Fatalf("drop %s: %v", login, err)
	}
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// connect opens a session that ends with the test.
func connect(t *testing.T, endpoint datastore.Endpoint) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), endpoint.URI())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) }) // the test's has ended by then
	return conn
}

// ask returns the last value that the statements yield, and the code of their error.
func ask(t *testing.T, conn *pgconn.PgConn, sql string) (value, code string) {
	t.Helper()
	results, err := conn.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		server, ok := errors.AsType[*pgconn.PgError](err)
		if !ok {
			t.Fatalf("%s: %v", sql, err)
		}
		return "", server.Code
	}
	for _, result := range results {
		if len(result.Rows) > 0 {
			value = string(result.Rows[0][0])
		}
	}
	return value, ""
}

// run runs statements that must succeed, each on its own, in a session of its own.
func run(t *testing.T, endpoint datastore.Endpoint, statements ...string) string {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), endpoint.URI())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(t.Context())
	last := ""
	for _, sql := range statements {
		value, code := ask(t, conn, sql)
		if code != "" {
			t.Fatalf("%s: %s", sql, code)
		}
		last = value
	}
	return last
}

// refuses checks that each statement, in a read-write session of its own, is forbidden: not that it fails otherwise.
func refuses(t *testing.T, endpoint datastore.Endpoint, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		conn, err := pgconn.Connect(t.Context(), endpoint.URI())
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		if _, code := ask(t, conn, "set default_transaction_read_only = off"); code != "" {
			t.Fatalf("the session cannot be made read-write: %s", code)
		}
		if _, code := ask(t, conn, sql); code != "42501" {
			t.Errorf("%s: got code %q, want 42501", sql, code)
		}
		conn.Close(t.Context())
	}
}

// reason is that of an error of this package, which must hold no secret.
func reason(t *testing.T, err error) string {
	t.Helper()
	typed, ok := errors.AsType[*datastore.Error](err)
	if !ok {
		t.Fatalf("got %v, want a *datastore.Error", err)
	}
	for _, secret := range []string{adminPassword, "superuser-password", "hunter2", "SCRAM", "://"} {
		if strings.Contains(typed.Message, secret) {
			t.Errorf("the message may hold a secret: %s", typed.Message)
		}
	}
	return typed.Reason
}

// root is the server's superuser.
func root(t *testing.T, server *servers.PostgresServer, database string) datastore.Endpoint {
	t.Helper()
	endpoint, err := datastore.Parse(v1alpha1.DriverPostgres, fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d?sslmode=disable",
		server.Password, server.Port), nil)
	if err != nil {
		t.Fatal(err)
	}
	return endpoint.WithDatabase(database)
}
