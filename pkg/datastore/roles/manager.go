// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/formspec/formspec-operator/pkg/datastore"
)

// Timeout is how long Ensure and Drop may take, from the look-up of the host to the last answer.
const Timeout = 20 * time.Second

// Manager makes and drops logins. It has no state: one is enough, and it may be used by many at a time.
type Manager struct {
	prober *datastore.Prober
}

// NewManager returns a Manager that connects as the Prober does.
func NewManager(prober *datastore.Prober) *Manager { return &Manager{prober: prober} }

// Ensure makes the login, its workspace's owner and schema, or changes what of them is different, and returns the endpoint
// for the login. It sets the password each time, so calling it with another one rotates it; sessions that are open stay.
// A change of permission ends them, and makes the login anew.
//
// The admin endpoint's servers, database, TLS and options are those of the login. Whether the server's own rules let the
// login in, a probe of the returned endpoint tells. The error is a *datastore.Error.
func (m *Manager) Ensure(ctx context.Context, admin datastore.Endpoint, login Login) (datastore.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if err := login.check(admin); err != nil {
		return datastore.Endpoint{}, err
	}
	secret, err := verifier(login.Password)
	if err != nil {
		return datastore.Endpoint{}, err
	}
	stale := false
	err = m.session(ctx, admin, login, func(ctx context.Context, w *work) (err error) {
		if stale, err = w.stale(ctx); err != nil || stale {
			return err
		}
		return again(func() error { return w.ensure(ctx, secret) })
	})
	if err == nil && stale {
		err = m.replace(ctx, admin, login, secret)
	}
	if err != nil {
		return datastore.Endpoint{}, err
	}
	return admin.WithLogin(login.Name(), login.Password), nil
}

// Drop ends the login's sessions, gives what it owns to its workspace's owner, in every database of the server, and drops
// it. The owner, the schema and what is in it stay. It needs the login's names only, and does nothing if it is gone. The
// error is a *datastore.Error.
func (m *Manager) Drop(ctx context.Context, admin datastore.Endpoint, login Login) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return m.drop(ctx, admin, login)
}

// replace makes the login anew. A new role has nothing left of what the old one was granted, by whomever, which revoking
// could not promise: from PostgreSQL 16 on, one user's grants are not another's to revoke.
func (m *Manager) replace(ctx context.Context, admin datastore.Endpoint, login Login, secret string) error {
	if err := m.drop(ctx, admin, login); err != nil {
		return err
	}
	return m.session(ctx, admin, login, func(ctx context.Context, w *work) error {
		return again(func() error { return w.ensure(ctx, secret) })
	})
}

func (m *Manager) drop(ctx context.Context, admin datastore.Endpoint, login Login) error {
	var elsewhere []string
	err := m.session(ctx, admin, login, func(ctx context.Context, w *work) (err error) {
		return again(func() error {
			elsewhere, err = w.suspend(ctx)
			return err
		})
	})
	for i := 0; err == nil && i < len(elsewhere); i++ {
		err = m.session(ctx, admin.WithDatabase(elsewhere[i]), login, func(ctx context.Context, w *work) error {
			return again(func() error { return w.release(ctx) })
		})
	}
	if err != nil {
		return err
	}
	return m.session(ctx, admin, login, func(ctx context.Context, w *work) error {
		return again(func() error { return w.drop(ctx) })
	})
}

// session connects, and does one thing.
func (m *Manager) session(ctx context.Context, admin datastore.Endpoint, login Login, do func(context.Context, *work) error) error {
	return m.prober.Session(ctx, admin, func(ctx context.Context, conn *pgconn.PgConn) error {
		s, err := open(ctx, conn)
		if err != nil {
			return err
		}
		return do(ctx, &work{session: s, Login: login, owner: login.Owner(), login: login.Name()})
	})
}
