// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"strings"
)

// permit gives the login its permission, for all that is in the schema and all that will be.
func (w *work) permit(ctx context.Context) error {
	path := "alter role " + identifier(w.login) + " set search_path = " + identifier(w.owner) + ", public; "
	if w.writes() {
		return w.permitWriting(ctx, path)
	}
	return w.permitReading(ctx, path)
}

func (w *work) permitWriting(ctx context.Context, path string) error {
	login, owner := identifier(w.login), identifier(w.owner)
	if err := w.exec(ctx, "grant a membership", "grant "+owner+" to "+login); err != nil {
		return err
	}
	settings := path + "alter role " + login + " set role = " + literal(w.owner) + "; " +
		"alter role " + login + " reset default_transaction_read_only"
	if err := w.exec(ctx, "change the login's settings", settings); err != nil {
		return err
	}
	// What a session creates that has left the role.
	if err := w.openFuture(ctx, []string{w.login}, "all", w.owner); err != nil {
		return err
	}
	readers, err := w.readers(ctx)
	for i := 0; err == nil && i < len(readers); i++ {
		err = w.openFuture(ctx, []string{w.login}, "select", readers[i])
	}
	return err
}

func (w *work) permitReading(ctx context.Context, path string) error {
	login := identifier(w.login)
	settings := path + "alter role " + login + " reset role; alter role " + login + " set default_transaction_read_only = on"
	if err := w.exec(ctx, "change the login's settings", settings); err != nil {
		return err
	}
	if err := w.exec(ctx, "grant the use of the schema", "grant usage on schema "+identifier(w.owner)+" to "+login); err != nil {
		return err
	}
	writers, err := w.writers(ctx)
	if err != nil {
		return err
	}
	if err := w.openFuture(ctx, append(writers, w.owner), "select", w.login); err != nil {
		return err
	}
	return w.openPresent(ctx)
}

// openFuture grants on what the makers will create in the schema.
func (w *work) openFuture(ctx context.Context, makers []string, privilege, grantee string) error {
	for _, maker := range makers {
		if err := w.become(ctx, maker); err != nil {
			return err
		}
		to := "alter default privileges for role " + identifier(maker) + " in schema " + identifier(w.owner) + " grant " + privilege
		sql := to + " on tables to " + identifier(grantee) + "; " + to + " on sequences to " + identifier(grantee)
		if err := w.exec(ctx, "change default privileges", sql); err != nil {
			return err
		}
	}
	return nil
}

// openPresent lets the login read what there is, as far as the workspace owns it. What it may read already is not touched:
// each grant is a write that collides with other changes to the table.
func (w *work) openPresent(ctx context.Context) error {
	names, err := w.names(ctx, "look up tables", `
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  and not has_table_privilege($2::name, c.oid, 'SELECT') and pg_has_role(current_user, c.relowner, 'USAGE')`, w.owner, w.login)
	if err != nil || len(names) == 0 {
		return err
	}
	tables := make([]string, len(names))
	for i, n := range names {
		tables[i] = identifier(w.owner) + "." + identifier(n)
	}
	return w.exec(ctx, "grant reading", "grant select on table "+strings.Join(tables, ", ")+" to "+identifier(w.login))
}

// readers are the workspace's read-only logins.
func (w *work) readers(ctx context.Context) ([]string, error) {
	return w.names(ctx, "look up who may read", `
select distinct r.rolname from pg_namespace n, aclexplode(n.nspacl) a join pg_roles r on r.oid = a.grantee
where n.nspname = $1 and a.privilege_type = 'USAGE' and starts_with(r.rolname, $2) and r.rolname <> $3`, w.owner, loginPrefix, w.login)
}

// writers are the workspace's read-write logins.
func (w *work) writers(ctx context.Context) ([]string, error) {
	return w.names(ctx, "look up who may write", `
select distinct r.rolname from pg_auth_members m join pg_roles r on r.oid = m.member
where m.roleid = (select oid from pg_roles where rolname = $1) and starts_with(r.rolname, $2) and r.rolname <> $3`, w.owner, loginPrefix, w.login)
}
