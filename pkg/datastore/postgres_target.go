// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// sessionAttributes are the values of target_session_attrs but "any", with libpq's meaning. Source: PostgreSQL, "libpq: Connection
// Parameters". pgconn's own checks ask the same questions and panic if there is no answer, which any server can bring about.
var sessionAttributes = map[string]pgconn.ValidateConnectFunc{
	"read-write":     expect("show transaction_read_only", "off", pgconn.ErrReadOnlyConnection),
	"read-only":      expect("show transaction_read_only", "on", pgconn.ErrReadWriteConnection),
	"primary":        acceptPrimary,
	"standby":        expect(recovery, "t", pgconn.ErrPrimaryConnection),
	"prefer-standby": expect(recovery, "t", pgconn.ErrPrimaryConnection),
}

const recovery = "select pg_is_in_recovery()"

// acceptPrimary accepts a server that takes writes.
var acceptPrimary = expect(recovery, "f", pgconn.ErrStandbyConnection)

// expect asks a question. Whatever is not the one answer is refused, an empty one too.
func expect(question, answer string, otherwise error) pgconn.ValidateConnectFunc {
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		results, err := conn.Exec(ctx, question).ReadAll()
		switch {
		case err != nil:
			return err
		case len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != 1 || string(results[0].Rows[0][0]) != answer:
			return otherwise
		}
		return nil
	}
}
