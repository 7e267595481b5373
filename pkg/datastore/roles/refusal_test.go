// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"strings"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/test/servers"
)

// expect ensures a login, and wants a reason.
func (p *place) expect(t *testing.T, want, about string) {
	t.Helper()
	_, err := manager.Ensure(t.Context(), p.admin, p.login("shop", "bank", readWrite))
	if got := reason(t, err); got != want || !strings.Contains(err.Error(), about) {
		t.Errorf("got %s (%v), want %s about %q", got, err, want, about)
	}
	if roles := run(t, p.root(t), "select count(*) from pg_roles where rolname = "+servers.Literal(p.login("shop", "bank", readWrite).Name())); roles != "0" {
		t.Error("the login was made nevertheless")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	login := func(p *place) (name, owner string) {
		l := p.login("shop", "bank", readWrite)
		return l.Name(), l.Owner()
	}
	for name, test := range map[string]func(*place){
		"a user without CREATEROLE": func(p *place) {
			t := p.t
			run(t, p.root(t), "alter role "+quoted(p.admin.User())+" nocreaterole")
			p.expect(t, v1alpha1.ReasonRoleRefused, "the endpoint's user may not manage roles: it may not create a role")
		},
		"a user who may not create schemas": func(p *place) {
			t := p.t
			run(t, p.root(t), "alter database "+quoted(p.database)+" owner to postgres")
			p.expect(t, v1alpha1.ReasonRoleRefused, "may not create a schema")
		},
		"a database where everybody may create in public": func(p *place) {
			t := p.t
			run(t, p.root(t), "grant create on schema public to public")
			p.expect(t, v1alpha1.ReasonRoleRefused, "REVOKE CREATE ON SCHEMA public")
		},
		"an owner that may log in": func(p *place) {
			t := p.t
			_, owner := login(p)
			run(t, p.root(t), "create role "+owner+" login")
			p.expect(t, v1alpha1.ReasonRoleRefused, "may log in")
		},
		"a schema of somebody else": func(p *place) {
			t := p.t
			_, owner := login(p)
			run(t, p.root(t), "create schema "+owner)
			p.expect(t, v1alpha1.ReasonRoleRefused, "ALTER SCHEMA")
		},
		"a login with attributes": func(p *place) {
			t := p.t
			name, _ := login(p)
			p.ensure(t, p.login("shop", "bank", readWrite))
			run(t, p.root(t), "alter role "+name+" createdb")
			_, err := manager.Ensure(t.Context(), p.admin, p.login("shop", "bank", readWrite))
			if got := reason(t, err); got != v1alpha1.ReasonRoleRefused {
				t.Errorf("got %s (%v)", got, err)
			}
			p.drop(t, p.login("shop", "bank", readWrite))
		},
		"a user with a wrong password": func(p *place) {
			t := p.t
			p.admin = p.admin.WithLogin(p.admin.User(), "wrong")
			p.expect(t, v1alpha1.ReasonAuthenticationFailed, "")
		},
		"a database that is not there": func(p *place) {
			t := p.t
			missing := *p
			missing.admin = p.admin.WithDatabase("missing")
			missing.expect(t, v1alpha1.ReasonDatabaseNotFound, "")
		},
		"something that the admin holds": func(p *place) {
			t := p.t
			open := connect(t, p.admin)
			_, owner := login(p)
			l := p.login("shop", "other", readWrite)
			p.ensure(t, l)
			if _, code := ask(t, open, "begin; comment on role "+owner+" is ''"); code != "" {
				t.Fatal(code)
			}
			p.expect(t, v1alpha1.ReasonServerNotReady, "another session holds")
		},
		"a tenant who holds every lock that it can get": func(p *place) {
			t := p.t
			shop := p.ensure(t, p.login("shop", "other", readWrite))
			run(t, shop, tables)
			open := connect(t, shop)
			if _, code := ask(t, open, "begin; lock table items; lock table names; select pg_advisory_lock(n) from generate_series(1, 100) n"); code != "" {
				t.Fatal(code)
			}
			if _, code := ask(t, open, "savepoint s; comment on role "+p.login("shop", "other", readWrite).Owner()+" is 'mine'"); code != "42501" {
				t.Fatal(code)
			}
			_, _ = ask(t, open, "rollback to s")
			p.ensure(t, p.login("shop", "bank", readWrite))
		},
		"a tenant who puts functions in the way": func(p *place) {
			t := p.t
			shop := p.ensure(t, p.login("shop", "other", readWrite))
			run(t, p.root(t), "grant create on schema public to "+p.login("shop", "other", readWrite).Owner(),
				"alter role "+quoted(p.admin.User())+" set search_path = public, pg_catalog", "alter role "+quoted(p.admin.User())+" superuser")
			run(t, shop, `create function public.starts_with(name, text) returns boolean language plpgsql as $$ begin
				execute 'create role stolen_' || pg_backend_pid() || ' superuser'; return false; end $$`)
			for _, permission := range []v1alpha1.Permission{readOnly, readWrite} {
				p.ensure(t, p.login("shop", "bank "+string(permission), permission))
			}
			if got := run(t, p.root(t), "select count(*) from pg_roles where rolname like 'stolen%'"); got != "0" {
				t.Error("a tenant's function ran as a superuser")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newPlace(t, server, t.Name(), false))
		})
	}
}

func TestRolesOfAnotherUser(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	p := newPlace(t, server, t.Name(), true)
	login := p.login("shop", "bank", readWrite)
	run(t, p.ensure(t, login), tables, "set role none", "create table loose (id int)")
	run(t, p.root(t), "create role successor login createrole password "+servers.Literal(adminPassword), "alter database "+quoted(p.database)+" owner to successor")
	p.admin = p.admin.WithLogin("successor", adminPassword)

	old := run(t, p.root(t), "select current_setting('server_version_num')::int < 160000") == "t"
	if _, err := manager.Ensure(t.Context(), p.admin, login); !old {
		if got := reason(t, err); got != v1alpha1.ReasonRoleRefused {
			t.Errorf("got %s (%v)", got, err)
		}
		if got := reason(t, manager.Drop(t.Context(), p.admin, login)); got != v1alpha1.ReasonRoleRefused {
			t.Errorf("got %s", got)
		}
		run(t, p.root(t), "grant "+login.Name()+", "+login.Owner()+" to successor with admin option")
	} else if err != nil {
		t.Error(err)
	}
	login.Permission = readOnly
	refuses(t, p.ensure(t, login), "delete from items")
	p.drop(t, login)
	run(t, p.root(t), "select * from "+login.Owner()+".loose")
}

func TestWhatCannotBeMadeSafeIsRefused(t *testing.T) {
	t.Parallel()
	parse := func(driver v1alpha1.Driver, text string) datastore.Endpoint {
		endpoint, err := datastore.Parse(driver, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return endpoint
	}
	p := &place{}
	good := p.login("shop", "bank", readWrite)
	empty, unicode, negative := good, good, good
	empty.Password, unicode.Password, negative.ConnectionLimit = "", "pässword", new(int32(-2))
	const admin = "postgres://admin:hunter2@192.0.2.1/bank"
	if _, err := manager.Ensure(t.Context(), parse(v1alpha1.DriverRedis, "redis://:hunter2@127.0.0.1"), good); reason(t, err) != v1alpha1.ReasonInvalidSpec {
		t.Errorf("got %v", err)
	}
	if _, err := manager.Ensure(t.Context(), datastore.Endpoint{}, good); reason(t, err) != v1alpha1.ReasonInvalidSpec {
		t.Errorf("got %v", err)
	}
	if _, err := manager.Ensure(t.Context(), parse(v1alpha1.DriverPostgres, admin+"?options=-c%20role%3Ddba"), good); reason(t, err) != v1alpha1.ReasonUnsupportedOption {
		t.Errorf("got %v", err)
	}
	if _, err := manager.Ensure(t.Context(), parse(v1alpha1.DriverPostgres, admin), negative); reason(t, err) != v1alpha1.ReasonInvalidSpec {
		t.Errorf("got %v", err)
	}
	for _, login := range []struct{ password string }{{empty.Password}, {unicode.Password}} {
		bad := good
		bad.Password = login.password
		if _, err := manager.Ensure(t.Context(), parse(v1alpha1.DriverPostgres, admin), bad); err == nil {
			t.Errorf("%q is accepted", login.password)
		}
	}
}
