// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"strconv"
)

// ensure makes the login what it is to be, in transactions of its own. One whose permission changes is locked first, and
// let in again by the transaction that gives it its new one.
func (w *work) ensure(ctx context.Context, secret string) error {
	var before role
	err := w.transaction(ctx, func() (err error) {
		before, err = w.role(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if before.exists && (!before.canLogin || w.changes(before)) {
		if _, err := w.suspend(ctx); err != nil {
			return err
		}
	}
	return w.transaction(ctx, func() error {
		if err := w.lockOwner(ctx); err != nil {
			return err
		}
		if err := w.ensureSchema(ctx); err != nil {
			return err
		}
		if err := w.ensureRole(ctx); err != nil {
			return err
		}
		attributes := " login inherit connection limit " + strconv.Itoa(int(w.connectionLimit())) + " password " + literal(secret)
		if err := w.exec(ctx, "set the login's password", "alter role "+identifier(w.login)+attributes); err != nil {
			return err
		}
		if err := w.permit(ctx); err != nil {
			return err
		}
		return w.verify(ctx)
	})
}

// ensureSchema makes the schema if there is none.
func (w *work) ensureSchema(ctx context.Context) error {
	row, err := w.row(ctx, "look up the schema",
		"select r.rolname = $1 from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = $1", w.owner)
	switch {
	case err != nil:
		return err
	case row == nil:
		return w.exec(ctx, "create a schema", "create schema "+identifier(w.owner)+" authorization "+identifier(w.owner))
	case row[0] != "t":
		return refused("the schema " + w.owner + " does not belong to the role of that name: give it back with ALTER SCHEMA … OWNER TO …")
	}
	return nil
}

// ensureRole leaves a login that has no rights yet, or those that it is to keep.
func (w *work) ensureRole(ctx context.Context) error {
	r, err := w.role(ctx)
	switch {
	case err != nil:
		return err
	case !r.exists:
		sql := "create role " + identifier(w.login) + " nologin; " +
			"comment on role " + identifier(w.login) + " is " + literal(w.identity("claim", w.Claim))
		if err := w.exec(ctx, "create a role", sql); err != nil {
			return err
		}
		return w.become(ctx, w.login)
	case r.elevated:
		return refused("the role " + w.login + " has attributes that the operator does not give: it is not the operator's, or was changed")
	case !r.canLogin:
		if err := w.handOver(ctx); err != nil {
			return err
		}
		return w.leaveOwner(ctx)
	case w.changes(r):
		return collided("change the login's permission") // with somebody who wants another one
	}
	return w.become(ctx, w.login)
}

// leaveOwner ends the login's membership, whoever granted it.
func (w *work) leaveOwner(ctx context.Context) error {
	const purpose = "revoke a membership"
	revoke := "revoke " + identifier(w.owner) + " from " + identifier(w.login)
	if w.version < grantOptionsVersion {
		return w.exec(ctx, purpose, revoke)
	}
	grantors, err := w.names(ctx, "look up memberships", `
select g.rolname from pg_auth_members m join pg_roles g on g.oid = m.grantor
where m.roleid = (select oid from pg_roles where rolname = $1) and m.member = (select oid from pg_roles where rolname = $2)`, w.owner, w.login)
	for i := 0; err == nil && i < len(grantors); i++ {
		err = w.exec(ctx, purpose, revoke+" granted by "+identifier(grantors[i]))
	}
	return err
}

// verify refuses to let in a login that would have more than it was given, or not what it needs.
func (w *work) verify(ctx context.Context) error {
	row, err := w.row(ctx, "look up the login's rights", `
select current_database(), has_database_privilege($1, current_database(), 'CONNECT'),
  exists (select from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = 'public' and a.grantee = 0 and a.privilege_type = 'CREATE')`, w.login)
	switch {
	case err != nil:
		return err
	case row[2] == "t":
		return refused("every user of the database may create objects in the schema public: run REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	case row[1] != "t":
		sql := "grant connect on database " + identifier(row[0]) + " to " + identifier(w.login)
		if err := w.exec(ctx, "let the login connect to the database", sql); err != nil {
			return err
		}
	}
	r, err := w.role(ctx)
	if err == nil && r.writes != w.writes() {
		err = refused("the login " + w.login + " is a member of the workspace's owner in a way that the endpoint's user may not change")
	}
	return err
}
