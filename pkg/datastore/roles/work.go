// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

// work is what one session does about one login. Its methods are steps of a transaction, unless they say otherwise.
type work struct {
	*session
	Login
	owner, login string
}

// role is what the server knows of the login.
type role struct {
	exists   bool
	canLogin bool
	elevated bool // has an attribute that no login gets
	writes   bool // is a member of the owner
	reads    bool // may use the schema by a grant of its own
}

func (w *work) role(ctx context.Context) (role, error) {
	row, found, err := w.row(ctx, "look up the login", `
select r.rolcanlogin, r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolreplication or r.rolbypassrls,
  exists (select from pg_auth_members m join pg_roles o on o.oid = m.roleid where o.rolname = $2 and m.member = r.oid),
  exists (select from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = $2 and a.grantee = r.oid and a.privilege_type = 'USAGE')
from pg_roles r where r.rolname = $1`, w.login, w.owner)
	if err != nil || !found {
		return role{}, err
	}
	return role{exists: true, canLogin: row[0] == "t", elevated: row[1] == "t", writes: row[2] == "t", reads: row[3] == "t"}, nil
}

// changes is true if a login with that permission is to have another.
func (w *work) changes(r role) bool {
	if w.writes() {
		return !r.writes && r.reads
	}
	return r.writes
}

// become makes the endpoint's user a member of a role, as it must be to create and hand over the role's objects.
func (w *work) become(ctx context.Context, name string) error {
	if w.superuser {
		return nil
	}
	check, options := "select pg_has_role(current_user, $1::name, 'USAGE')", ""
	if w.version >= grantOptionsVersion {
		check += " and pg_has_role(current_user, $1::name, 'SET')"
		options = " with inherit true, set true"
	}
	row, _, err := w.row(ctx, "look up its memberships", check, name)
	if err != nil || row[0] == "t" {
		return err
	}
	return w.exec(ctx, "become a member of the roles that it made", "grant "+identifier(name)+" to current_user"+options)
}

// lockOwner makes the owner if there is none, and keeps others from working on the same workspace, in any database, until
// the transaction ends. A comment takes a lock that only those get who may manage the role. An advisory lock would be
// everybody's: a tenant could hold it forever.
func (w *work) lockOwner(ctx context.Context) error {
	row, found, err := w.row(ctx, "look up the owner", `
select rolcanlogin or rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls from pg_roles where rolname = $1`, w.owner)
	switch {
	case err != nil:
		return err
	case !found:
		if err := w.exec(ctx, "create a role", "create role "+identifier(w.owner)+" nologin"); err != nil {
			return err
		}
	case row[0] == "t":
		return refused("the role " + w.owner + " may log in or has attributes that the operator does not give: it is not the operator's, or was changed")
	}
	// Others of the operator may be before us, which takes longer than a tenant's queries are to wait for a lock of ours.
	comment := "set local lock_timeout = '5s'; comment on role " + identifier(w.owner) + " is " + literal(w.identity("workspace", w.Workspace)) +
		"; set local lock_timeout = '2s'"
	if err := w.exec(ctx, "change the owner's comment", comment); err != nil {
		return err
	}
	return w.become(ctx, w.owner)
}

// suspend locks the login and ends its sessions, in transactions of its own. It returns the other databases that know the
// login.
func (w *work) suspend(ctx context.Context) (elsewhere []string, err error) {
	exists := false
	err = w.transaction(ctx, func() error {
		r, err := w.role(ctx)
		if exists = r.exists; err != nil || !exists {
			return err
		}
		if err = w.become(ctx, w.login); err != nil {
			return err
		}
		if err = w.exec(ctx, "lock the login", "alter role "+identifier(w.login)+" nologin"); err != nil {
			return err
		}
		elsewhere, err = w.names(ctx, "look up the login's objects", `
select distinct d.datname from pg_shdepend s join pg_database d on d.oid = s.dbid
where s.refclassid = 'pg_authid'::regclass and s.refobjid = (select oid from pg_roles where rolname = $1) and d.datname <> current_database()`, w.login)
		return err
	})
	if err != nil || !exists {
		return nil, err
	}
	return elsewhere, w.endSessions(ctx)
}

// endSessions tells all to end, and then waits for each.
func (w *work) endSessions(ctx context.Context) error {
	for _, milliseconds := range []string{"0", "1000", "1000", "1000"} {
		var row [columns]string
		err := w.transaction(ctx, func() (err error) {
			row, _, err = w.row(ctx, "end the login's sessions", `
select count(pg_terminate_backend(pid, $2)) from pg_stat_activity
where usesysid = (select oid from pg_roles where rolname = $1) and pid <> pg_backend_pid()`, w.login, milliseconds)
			return err
		})
		if err != nil || row[0] == "0" {
			return err
		}
	}
	return &datastore.Error{Reason: v1alpha1.ReasonServerNotReady, Message: "sessions of the login do not end"}
}

// handOver gives what the login owns to the owner, and takes all that it was granted, in this database.
func (w *work) handOver(ctx context.Context) error {
	if err := w.lockOwner(ctx); err != nil {
		return err
	}
	if err := w.become(ctx, w.login); err != nil {
		return err
	}
	return w.exec(ctx, "hand over what the login owns",
		"reassign owned by "+identifier(w.login)+" to "+identifier(w.owner)+"; drop owned by "+identifier(w.login))
}

// release is a transaction in which the login leaves a database.
func (w *work) release(ctx context.Context) error {
	return w.transaction(ctx, func() error {
		if r, err := w.role(ctx); err != nil || !r.exists {
			return err
		}
		return w.handOver(ctx)
	})
}

// drop is the transaction after which there is no login.
func (w *work) drop(ctx context.Context) error {
	return w.transaction(ctx, func() error {
		if r, err := w.role(ctx); err != nil || !r.exists {
			return err
		}
		if err := w.handOver(ctx); err != nil {
			return err
		}
		return w.exec(ctx, "drop the login", "drop role "+identifier(w.login))
	})
}
