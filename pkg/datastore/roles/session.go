// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// minVersion is the first PostgreSQL that waits for the sessions which it ends.
	minVersion = 140000
	// grantOptionsVersion is the first PostgreSQL where memberships have options, and grants by several users add up.
	grantOptionsVersion = 160000
)

// begin is the head of every transaction. A search_path that no tenant can add to keeps their functions and operators out
// of what the endpoint's user runs.
const begin = `begin isolation level read committed read write;
set local search_path = pg_catalog, pg_temp;
set local client_encoding = 'UTF8';
set local standard_conforming_strings = on;
set local statement_timeout = '10s';
set local lock_timeout = '2s';
set local idle_in_transaction_session_timeout = '10s'`

// session is a connection of the endpoint's user.
type session struct {
	conn      *pgconn.PgConn
	version   int
	superuser bool
}

// open asks the server what it is.
func open(ctx context.Context, conn *pgconn.PgConn) (*session, error) {
	s := &session{conn: conn}
	err := s.transaction(ctx, func() error {
		row, _, err := s.row(ctx, "ask for the version", "select current_setting('server_version_num'), current_setting('is_superuser')")
		if err != nil {
			return err
		}
		s.version, _ = strconv.Atoi(row[0])
		s.superuser = row[1] == "on"
		if s.version < minVersion {
			return refused("the server is older than PostgreSQL 14")
		}
		return nil
	})
	return s, err
}

// transaction runs do and commits, or undoes everything.
func (s *session) transaction(ctx context.Context, do func() error) error {
	err := s.exec(ctx, "begin a transaction", begin)
	if err == nil {
		err = do()
	}
	if err == nil {
		return s.exec(ctx, "commit", "commit")
	}
	if !s.conn.IsClosed() {
		_ = s.conn.Exec(ctx, "rollback").Close()
	}
	return err
}

// maxAttempts of work that collides with somebody's who does the same.
const maxAttempts = 5

// errCollision marks what was not done because somebody else was faster.
var errCollision = errors.New("somebody else was faster")

// again repeats work that collided. The server lets one wait for the other, so no pause is needed.
func again(do func() error) error {
	var err error
	for range maxAttempts {
		if err = do(); !errors.Is(err, errCollision) {
			return err
		}
	}
	return err
}

// exec runs statements. What they are for completes "the endpoint's user may not …", and must be a constant.
func (s *session) exec(ctx context.Context, purpose, sql string) error {
	return failure(purpose, s.conn.Exec(ctx, sql).Close())
}

const (
	// columns is how many of a row may be looked at, whatever the server sends.
	columns = 4
	// maxRows is more tables than a workspace has. A server that is none may send rows without end.
	maxRows = 100_000
)

var errRows = errors.New("the server does not stop to send rows")

// rows asks a question. NULL is empty, and so is what the server leaves out.
func (s *session) rows(ctx context.Context, purpose, sql string, arguments ...string) ([][columns]string, error) {
	values := make([][]byte, len(arguments))
	for i, argument := range arguments {
		values[i] = []byte(argument)
	}
	var rows [][columns]string
	reader := s.conn.ExecParams(ctx, sql, values, nil, nil, nil)
	for reader.NextRow() {
		if len(rows) == maxRows {
			_ = s.conn.Close(ctx)
			return nil, failure(purpose, errRows)
		}
		var row [columns]string
		for i, value := range reader.Values() {
			if i < columns {
				row[i] = string(value)
			}
		}
		rows = append(rows, row)
	}
	_, err := reader.Close()
	return rows, failure(purpose, err)
}

// row is the first one, and whether there is one.
func (s *session) row(ctx context.Context, purpose, sql string, arguments ...string) (row [columns]string, found bool, err error) {
	rows, err := s.rows(ctx, purpose, sql, arguments...)
	if err != nil || len(rows) == 0 {
		return row, false, err
	}
	return rows[0], true, nil
}

// names is the first column.
func (s *session) names(ctx context.Context, purpose, sql string, arguments ...string) ([]string, error) {
	rows, err := s.rows(ctx, purpose, sql, arguments...)
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = row[0]
	}
	return names, err
}
