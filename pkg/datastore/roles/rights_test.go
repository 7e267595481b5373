// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/formspec/formspec-operator/test/servers"
)

func TestRights(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	everywhere(t, server, "a read-write login does what it wants in its schema", writesItsOwn)
	everywhere(t, server, "a read-write login does nothing elsewhere", writesNothingElse)
	everywhere(t, server, "a read-only login reads", reads)
	everywhere(t, server, "a read-only login writes nothing", readsOnly)
	everywhere(t, server, "a read-only login reads what comes later", readsTheFuture)
	everywhere(t, server, "workspaces see nothing of each other", isolates)
	everywhere(t, server, "one datastore's claim is none on another", isolatesDatastores)
	everywhere(t, server, "a login has no attributes, and its limit of connections", hasNoAttributes)
	everywhere(t, server, "a login may connect where not everybody may", connects)
}

// tables are what the tests work on.
const tables = "create table items (id serial primary key, name text); insert into items (name) values ('one'); " +
	"create view names as select name from items; create materialized view kept as select name from items; create sequence counter"

func writesItsOwn(p *place) {
	t := p.t
	shop := p.ensure(t, p.login("shop", "bank", readWrite))
	run(t, shop, tables,
		"insert into items (name) values ('two')", "update items set name = 'three' where id = 2", "delete from items where id = 2",
		"select nextval('counter')", "alter table items add column price int", "create index on items (name)", "truncate items",
		"create function one() returns int language sql as 'select 1'", "select one()", "create temp table scratch (id int)",
		"create type color as enum ('red')", "drop view names", "drop table items cascade")
	if got := run(t, shop, "create table mine (id int)", "select tableowner || ' ' || schemaname from pg_tables where tablename = 'mine'"); got !=
		p.login("shop", "bank", readWrite).Owner()+" "+p.login("shop", "bank", readWrite).Owner() {
		t.Errorf("a new table belongs to %s", got)
	}
}

func writesNothingElse(p *place) {
	t := p.t
	login := p.login("shop", "bank", readWrite)
	shop := p.ensure(t, login)
	run(t, p.root(t), "create table public.private (id int)", "create role somebody_"+login.Owner()[3:])
	refuses(t, shop,
		"create table public.t (id int)", "create schema s", "create role r", "create database d", "select * from pg_authid",
		"select * from public.private", "insert into public.private values (1)", "drop table public.private",
		"set role somebody_"+login.Owner()[3:], "set role postgres", "alter role postgres nologin", "drop schema public",
		"set session authorization postgres", "alter system set work_mem = '1GB'", "copy (select 1) to program 'true'",
		"grant "+login.Owner()+" to somebody_"+login.Owner()[3:], "select pg_read_file('postgresql.conf')",
		"alter role "+login.Name()+" connection limit -1", "alter role "+login.Name()+" superuser", "alter role "+login.Name()+" createrole")
}

func reads(p *place) {
	t := p.t
	shop := p.ensure(t, p.login("shop", "bank", readWrite))
	run(t, shop, tables)
	report := p.ensure(t, p.login("shop", "report", readOnly))
	for _, sql := range []string{"select name from items", "select name from names", "select name from kept", "select last_value from counter"} {
		if got := run(t, report, sql); got == "" {
			t.Errorf("%s: nothing", sql)
		}
	}
	if got := run(t, report, "show default_transaction_read_only"); got != "on" {
		t.Errorf("default_transaction_read_only is %s", got)
	}
}

func readsOnly(p *place) {
	t := p.t
	login := p.login("shop", "bank", readWrite)
	run(t, p.ensure(t, login), tables)
	report := p.ensure(t, p.login("shop", "report", readOnly))
	for _, sql := range []string{
		"insert into items (name) values ('x')", "update items set name = 'x'", "delete from items", "truncate items", "drop table items",
		"create table t (id int)", "create table public.t (id int)", "alter table items add column x int", "create index on items (name)",
		"select nextval('counter')", "refresh materialized view kept", "create view v as select 1",
		"create function f() returns int language sql as 'select 1'", "set role " + login.Owner(), "set role " + login.Name(),
		"alter schema " + login.Owner() + " rename to x", "drop schema " + login.Owner() + " cascade",
		"alter default privileges for role " + login.Owner() + " grant all on tables to public",
	} {
		refuses(t, report, sql)
	}
}

func readsTheFuture(p *place) {
	t := p.t
	first, second := p.login("shop", "bank", readWrite), p.login("shop", "other", readWrite)
	bank := p.ensure(t, first)
	early := p.ensure(t, p.login("shop", "early", readOnly))
	other := p.ensure(t, second)
	late := p.ensure(t, p.login("shop", "late", readOnly))
	run(t, bank, tables)
	// What a session makes that has left its role belongs to its login.
	run(t, bank, "set role none", "create table loose (id serial primary key)", "insert into loose default values")
	run(t, other, "set role none", "create table loose2 (id int)", "insert into loose2 values (7)")
	for name, reader := range map[string]func(string) string{
		"early": func(sql string) string { return run(t, early, sql) },
		"late":  func(sql string) string { return run(t, late, sql) },
	} {
		for _, table := range []string{"items", "names", "kept", "counter", "loose", "loose_id_seq", "loose2"} {
			if got := reader("select count(*) from " + table); table != "kept" && got != "1" {
				t.Errorf("%s sees %s rows of %s", name, got, table)
			}
		}
	}
	run(t, other, "insert into loose default values", "update loose set id = 9 where id = 2", "delete from loose where id = 9")
	run(t, bank, "insert into loose2 values (8)")
	refuses(t, early, "insert into loose default values")
	if owner := run(t, bank, "select tableowner from pg_tables where tablename = 'loose'"); owner != first.Name() {
		t.Errorf("the premise does not hold: the table belongs to %s", owner)
	}
}

func isolates(p *place) {
	t := p.t
	shop, cafe := p.login("shop", "shop-bank", readWrite), p.login("cafe", "cafe-bank", readWrite)
	run(t, p.ensure(t, shop), tables)
	report := p.ensure(t, p.login("cafe", "cafe-report", readOnly))
	for _, reader := range []func(...string){
		func(sql ...string) { refuses(t, p.ensure(t, cafe), sql...) },
		func(sql ...string) { refuses(t, report, sql...) },
	} {
		in := shop.Owner() + "."
		reader("select * from "+in+"items", "insert into "+in+"items values (1)",
			"create table "+in+"t (id int)", "select "+in+"one()", "set role "+shop.Owner(), "set role "+shop.Name())
	}
}

func isolatesDatastores(p *place) {
	t := p.t
	shop, archive := p.login("shop", "bank", readOnly), p.login("shop", "archive-bank", readWrite)
	archive.Datastore = "archive"
	p.ensure(t, shop)
	refuses(t, p.ensure(t, archive), "create table "+shop.Owner()+".t (id int)", "set role "+shop.Owner())
}

func hasNoAttributes(p *place) {
	t := p.t
	limit := int32(2)
	login := p.login("shop", "bank", readWrite)
	login.ConnectionLimit = &limit
	shop := p.ensure(t, login)
	for _, name := range []string{login.Name(), login.Owner()} {
		if got := run(t, p.root(t), "select concat(rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls) from pg_roles where rolname = "+
			servers.Literal(name)); got != "fffff" {
			t.Errorf("%s has attributes: %s", name, got)
		}
	}
	if got := run(t, p.root(t), "select rolcanlogin from pg_roles where rolname = "+servers.Literal(login.Owner())); got != "f" {
		t.Error("the owner may log in")
	}
	connect(t, shop)
	connect(t, shop)
	if _, err := pgconn.Connect(t.Context(), shop.URI()); err == nil || !strings.Contains(err.Error(), "53300") {
		t.Errorf("a third connection: %v", err)
	}
	login.ConnectionLimit = nil
	connect(t, p.ensure(t, login))
}

func connects(p *place) {
	t := p.t
	run(t, p.root(t), "revoke connect on database "+quoted(p.database)+" from public")
	login := p.login("shop", "bank", readWrite)
	run(t, p.ensure(t, login), tables)
	p.drop(t, login)
}
