// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

const (
	// maxPostgresMessage is more than any answer to a probe.
	maxPostgresMessage = 64 << 10
	// maxIterations of SCRAM take about half a second. PostgreSQL's default is 4096; pgx would go to ten million, and
	// neither deadline nor cancellation ends the computation.
	maxIterations = 1_000_000
)

var (
	errExpensive = errors.New("the server wants too long a computation")
	errMessage   = errors.New("not a message of the PostgreSQL protocol")
)

// loginReader reads along with what the server says, and stops before a message that costs too much.
type loginReader struct {
	io.Reader
	asked bool   // the server has begun to talk about authentication: it is a PostgreSQL server
	rest  []byte // the beginning of a message of which more is to come
}

// Read never completes a message that it has not looked at.
func (l *loginReader) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	l.rest = append(l.rest, b[:n]...)
	for len(l.rest) >= 5 {
		end := 1 + int64(binary.BigEndian.Uint32(l.rest[1:]))
		if end < 5 || end > maxPostgresMessage {
			return 0, errMessage
		}
		if int64(len(l.rest)) < end {
			break
		}
		if kind, body := l.rest[0], l.rest[5:end]; kind == 'R' {
			l.asked = true
			if iterations(body) > maxIterations {
				return 0, errExpensive
			}
		}
		l.rest = l.rest[end:]
	}
	return n, err
}

// iterations are those of a SCRAM challenge; 0 for other messages about authentication.
func iterations(body []byte) int {
	const saslContinue = 11
	if len(body) < 4 || binary.BigEndian.Uint32(body) != saslContinue {
		return 0
	}
	for attribute := range strings.SplitSeq(string(body[4:]), ",") {
		if value, found := strings.CutPrefix(attribute, "i="); found {
			n, err := strconv.Atoi(value)
			if err != nil {
				return maxIterations + 1
			}
			return n
		}
	}
	return 0
}

// failed maps an error of the connection. Only its type and its code count, never its text.
func (a *postgresAttempt) failed(err error) Result {
	var (
		server    *pgconn.PgError
		handshake *handshakeError
	)
	switch {
	case a.conn == nil:
		return unreachable()
	case errors.As(err, &server):
		result, final := postgresError(server.Code)
		a.another = !final
		return result
	case errors.Is(err, pgconn.ErrReadOnlyConnection), errors.Is(err, pgconn.ErrReadWriteConnection),
		errors.Is(err, pgconn.ErrPrimaryConnection), errors.Is(err, pgconn.ErrStandbyConnection):
		return Result{Reason: v1alpha1.ReasonServerNotReady, Message: "the server is not in the state that target_session_attrs asks for"}
	case errors.As(err, &handshake):
		a.another = true
		return handshakeFailed(err)
	case a.tls != nil && a.conn.first.Load() == 'N' && a.login == nil:
		a.another = true
		return Result{Reason: v1alpha1.ReasonTLSVerificationFailed, Message: "the server does not speak TLS"}
	case a.login != nil && a.login.asked && !disconnected(err):
		a.another = true
		return Result{
			Reason:  v1alpha1.ReasonAuthenticationFailed,
			Message: "the server wants a way of authentication that the connection string does not allow or the operator does not know",
		}
	}
	a.another = true
	return unreachable()
}

// postgresError maps the server's error code, and says whether it is the same with and without TLS.
func postgresError(code string) (result Result, final bool) {
	if len(code) != 5 || strings.Trim(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return unreachable(), true
	}
	suffix := " (SQLSTATE " + code + ")"
	switch {
	case code == "28P01":
		return Result{Reason: v1alpha1.ReasonAuthenticationFailed, Message: "the server refuses the user or the password" + suffix}, true
	case strings.HasPrefix(code, "28"):
		return Result{Reason: v1alpha1.ReasonAuthenticationFailed, Message: "the server's rules do not let the user in" + suffix}, false
	case code == "3D000":
		return Result{Reason: v1alpha1.ReasonDatabaseNotFound, Message: "the server has no database of that name" + suffix}, true
	case code == "42501":
		return Result{Reason: v1alpha1.ReasonPermissionDenied, Message: "the user may not connect to the database" + suffix}, true
	case code == "53300":
		return Result{Reason: v1alpha1.ReasonTooManyConnections, Message: "the server or the user has no connection left" + suffix}, true
	}
	return Result{Reason: v1alpha1.ReasonServerNotReady, Message: "the server answers with an error" + suffix}, true
}
