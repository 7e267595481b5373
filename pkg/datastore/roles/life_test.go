// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	"github.com/formspec/formspec-operator/test/servers"
)

func TestLife(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{Settings: []string{"log_statement=all", "log_min_duration_statement=0", "log_min_messages=debug1"}})
	t.Run("of a login", func(t *testing.T) {
		everywhere(t, server, "doing it again changes nothing", isIdempotent)
		everywhere(t, server, "a new password works and the old one does not", rotates)
		everywhere(t, server, "a lesser permission holds at once", narrows)
		everywhere(t, server, "a greater permission holds at once", widens)
		everywhere(t, server, "what a login made stays when it is dropped", keepsObjects)
		everywhere(t, server, "what a login has in other databases is handed over too", dropsEverywhere)
		everywhere(t, server, "a login that was locked by half is finished", resumes)
		everywhere(t, server, "names may be hostile", acceptsHostileNames)
		everywhere(t, server, "many at a time do not collide", runsConcurrently)
	})
	log := server.Log()
	if !strings.Contains(log, "SCRAM-SHA-256$4096:") {
		t.Error("the premise does not hold: the server does not log statements")
	}
	passwords.Range(func(password, _ any) bool {
		if strings.Contains(log, password.(string)) {
			t.Errorf("the server's log has a password")
		}
		return true
	})
}

func isIdempotent(p *place) {
	t := p.t
	for _, permission := range []v1alpha1.Permission{readWrite, readOnly} {
		login := p.login("shop", "bank "+string(permission), permission)
		shop := p.ensure(t, login)
		if permission == readWrite {
			run(t, shop, tables)
		}
		open := connect(t, shop)
		before := run(t, p.root(t), catalog(login))
		if again := p.ensure(t, login); !again.Equal(shop) {
			t.Error("the endpoint is another")
		}
		if after := run(t, p.root(t), catalog(login)); after != before {
			t.Errorf("from\n%s\nto\n%s", before, after)
		}
		if _, code := ask(t, open, "select 1"); code != "" {
			t.Errorf("a session ended: %s", code)
		}
	}
	if got := run(t, p.root(t), "select 1"); got != "1" {
		t.Error(got)
	}
}

// catalog is all that the server knows of a login and its workspace.
func catalog(login roles.Login) string {
	names := "(" + servers.Literal(login.Name()) + ", " + servers.Literal(login.Owner()) + ")"
	return "select concat(" +
		"(select string_agg(r::text, ' ' order by r.rolname) from pg_roles r where r.rolname in " + names + "), ' '," +
		"(select string_agg(concat(m.roleid, m.member, m.grantor, m.admin_option), ' ' order by m.roleid, m.member, m.grantor) " +
		"from pg_auth_members m join pg_roles r on m.roleid = r.oid where r.rolname in " + names + "), ' '," +
		"(select string_agg(n::text, ' ') from pg_namespace n where n.nspname in " + names + "), ' '," +
		"(select string_agg(concat(defaclrole, defaclnamespace, defaclobjtype, defaclacl), ' ' order by oid) from pg_default_acl), ' '," +
		"(select string_agg(concat(c.oid, c.xmin, c.relacl), ' ' order by c.oid) from pg_class c join pg_roles r on r.oid = c.relowner where r.rolname in " + names + "))"
}

func rotates(p *place) {
	t := p.t
	login := p.login("shop", "bank", readWrite)
	before := p.ensure(t, login)
	open := connect(t, before)
	login.Password = newPassword()
	after := p.ensure(t, login)
	run(t, after, "create table t (id int)")
	if _, err := pgconn.Connect(t.Context(), before.URI()); err == nil || !strings.Contains(err.Error(), "28P01") {
		t.Errorf("the old password: %v", err)
	}
	if _, code := ask(t, open, "select 1"); code != "" {
		t.Errorf("an open session ended: %s", code)
	}
	if got := run(t, p.root(t), "select concat(count(*), min(substr(rolpassword, 1, 19))) from pg_authid where rolname = "+servers.Literal(login.Name())); got != "1SCRAM-SHA-256$4096:"[:20] {
		t.Errorf("the server keeps %s", got)
	}
	result := datastore.NewProber(datastore.ProberOptions{}).Probe(t.Context(), after)
	if !result.Valid() || result.Superuser {
		t.Errorf("a probe says %s (%s)", result.Reason, result.Message)
	}
}

func narrows(p *place) {
	t := p.t
	login := p.login("shop", "bank", readWrite)
	shop := p.ensure(t, login)
	// As one would who knows what comes: with a session that acts as the owner, grants of its own, and a table of its own.
	run(t, shop, tables, "grant all on items to "+login.Name(), "grant all on schema "+login.Owner()+" to "+login.Name(),
		"alter default privileges grant all on tables to "+login.Name(), "set role none", "create table loose (id int)")
	open := connect(t, shop)
	login.Permission = readOnly
	shop = p.ensure(t, login)
	if _, err := open.Exec(t.Context(), "insert into items (name) values ('late')").ReadAll(); err == nil {
		t.Error("a session of the old permission goes on")
	}
	refuses(t, shop, "insert into items (name) values ('x')", "insert into loose values (1)", "drop table loose", "create table t (id int)",
		"set role "+login.Owner())
	if got := run(t, shop, "select count(*) from items, loose"); got != "0" {
		t.Errorf("got %s rows", got)
	}
	run(t, p.root(t), "set role "+login.Owner(), "create table "+login.Owner()+".later (id int)")
	refuses(t, shop, "insert into later values (1)")
	login.Permission = readWrite
	run(t, p.ensure(t, login), "insert into items (name) values ('x')", "drop table loose", "drop table later")
}

func widens(p *place) {
	t := p.t
	login := p.login("shop", "bank", readOnly)
	open := connect(t, p.ensure(t, login))
	login.Permission = readWrite
	shop := p.ensure(t, login)
	if _, err := open.Exec(t.Context(), "select 1").ReadAll(); err == nil {
		t.Error("a session of the old permission goes on, and is read-only")
	}
	run(t, shop, tables)
	if got := run(t, shop, "select tableowner from pg_tables where tablename = 'items'"); got != login.Owner() {
		t.Errorf("the table belongs to %s", got)
	}
}

func keepsObjects(p *place) {
	t := p.t
	login, reader := p.login("shop", "bank", readWrite), p.login("shop", "report", readOnly)
	shop, report := p.ensure(t, login), p.ensure(t, reader)
	run(t, shop, tables, "set role none", "create table loose (id serial primary key)", "insert into loose default values",
		"create function f() returns int language sql as 'select 1'", "create type color as enum ('red')",
		"grant select on loose to public")
	open := connect(t, shop)
	p.drop(t, login)
	if _, err := open.Exec(t.Context(), "select 1").ReadAll(); err == nil {
		t.Error("a session of the login goes on")
	}
	if _, err := pgconn.Connect(t.Context(), shop.URI()); err == nil {
		t.Error("the login works still")
	}
	p.drop(t, login)
	p.drop(t, p.login("nothing", "nobody", readOnly))
	for _, table := range []string{"items", "loose"} {
		if got := run(t, report, "select concat(count(*), (select tableowner from pg_tables where tablename = '"+table+"')) from "+table); got != "1"+login.Owner() {
			t.Errorf("%s: got %s", table, got)
		}
	}
	login.UID = "another"
	run(t, p.ensure(t, login), "insert into loose default values", "select f()", "drop table loose", "drop function f()", "drop type color")
	p.drop(t, reader)
	p.drop(t, login)
	if got := run(t, p.root(t), "select count(*) from pg_roles where rolname = "+servers.Literal(login.Owner())); got != "1" {
		t.Error("the owner is gone")
	}
	if got := run(t, p.root(t), "select count(*) from "+login.Owner()+".items"); got != "1" {
		t.Errorf("items has %s rows", got)
	}
}

func dropsEverywhere(p *place) {
	t := p.t
	other := *p
	other.database = "other " + p.database
	run(t, p.root(t), "create database "+quoted(other.database)+" owner "+quoted(p.admin.User()))
	run(t, other.root(t), "revoke create on schema public from public")
	other.admin = p.admin.WithDatabase(other.database)
	for _, permission := range []v1alpha1.Permission{readOnly, readWrite} {
		login := p.login("shop", "bank "+string(permission), permission)
		p.ensure(t, login)
		moved := other.ensure(t, login)
		if permission == readWrite {
			run(t, moved, "set role none", "create table loose (id int)")
		}
		p.drop(t, login)
		if got := run(t, p.root(t), "select count(*) from pg_roles where rolname = "+servers.Literal(login.Name())); got != "0" {
			t.Error("the login is there still")
		}
		if permission == readWrite {
			run(t, other.root(t), "select * from "+login.Owner()+".loose")
		}
	}
}

func resumes(p *place) {
	t := p.t
	login := p.login("shop", "bank", readWrite)
	shop := p.ensure(t, login)
	run(t, shop, tables)
	open := connect(t, shop)
	run(t, p.root(t), "alter role "+login.Name()+" nologin")
	login.Permission = readOnly
	shop = p.ensure(t, login)
	if _, err := open.Exec(t.Context(), "select 1").ReadAll(); err == nil {
		t.Error("a session of the old permission goes on")
	}
	run(t, shop, "select * from items")
	refuses(t, shop, "delete from items")
}

func acceptsHostileNames(p *place) {
	t := p.t
	for i, hostile := range []string{
		`"; drop table canary; --`, `'; drop table canary; --`, `\'; drop table canary; --`, "$$; drop table canary; --", "日本 müller",
		"a\x00b", "\xff\xfe", "a\nb\\", strings.Repeat(`"`, 253), strings.Repeat("a", 253), strings.Repeat("é.", 126),
	} {
		login := roles.Login{
			Cluster: hostile, Namespace: hostile + p.database, Datastore: hostile, Workspace: hostile, Claim: hostile,
			UID: "uid", Permission: readWrite, Password: `'"\; ` + newPassword(),
		}
		passwords.Store(login.Password, true)
		shop := p.ensure(t, login)
		run(t, shop, "create table canary (id int)", `create table "ta""ble'; drop table canary; --" (id int)`, `create sequence "; drop table canary; --"`)
		login.Permission = readOnly
		shop = p.ensure(t, login)
		run(t, shop, "select * from canary", `select * from "ta""ble'; drop table canary; --"`)
		p.drop(t, login)
		if got := run(t, p.root(t), "select count(*) from pg_tables where tablename = 'canary'"); got != strconv.Itoa(i+1) {
			t.Fatalf("after %q there are %s canaries", hostile, got)
		}
	}
}

func runsConcurrently(p *place) {
	t := p.t
	const claims = 4
	each := func(do func(roles.Login) error) {
		t.Helper()
		var wait sync.WaitGroup
		for i := range 2 * claims { // each claim twice
			permission := readWrite
			if i%2 == 0 {
				permission = readOnly
			}
			login := p.login("shop", fmt.Sprint("bank", i%claims), permission)
			wait.Go(func() {
				if err := do(login); err != nil {
					t.Errorf("%s: %v", login, err)
				}
			})
		}
		wait.Wait()
	}
	each(func(login roles.Login) error {
		_, err := manager.Ensure(t.Context(), p.admin, login)
		return err
	})
	login := p.login("shop", "bank1", readWrite)
	run(t, p.ensure(t, login), tables, "set role none", "create table loose (id int)")
	each(func(login roles.Login) error { return manager.Drop(t.Context(), p.admin, login) })
	run(t, p.root(t), "select * from "+login.Owner()+".loose")
}
