// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"strconv"
)

// stale is true if the login is there and cannot be kept: with another permission, or locked by a Drop that did not finish.
func (w *work) stale(ctx context.Context) (stale bool, err error) {
	err = w.transaction(ctx, func() error {
		r, err := w.role(ctx)
		stale = r.exists && (!r.canLogin || w.changes(r))
		return err
	})
	return stale, err
}

// ensure is the transaction that makes the login what it is to be.
func (w *work) ensure(ctx context.Context, secret string) error {
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
	row, found, err := w.row(ctx, "look up the schema",
		"select r.rolname = $1 from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = $1", w.owner)
	switch {
	case err != nil:
		return err
	case !found:
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
	case !r.canLogin || w.changes(r):
		return collided("change the login's permission") // with somebody who wants another one, or none
	}
	return w.become(ctx, w.login)
}

// verify refuses to let in a login that would have more than it was given, or not what it needs.
func (w *work) verify(ctx context.Context) error {
	row, _, err := w.row(ctx, "look up the login's rights", `
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
	return nil
}
