// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

// fake is the endpoint of a server that does as it likes.
func fake(t *testing.T, serve func(net.Conn)) datastore.Endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	endpoint, err := datastore.Parse(v1alpha1.DriverPostgres, "postgres://u:hunter2@"+listener.Addr().String()+"/d?sslmode=disable", nil)
	if err != nil {
		t.Fatal(err)
	}
	return endpoint
}

// answering lets everybody in, and answers each question with what the rows make of it.
func answering(rows func(question string) []*pgproto3.DataRow) func(net.Conn) {
	return func(conn net.Conn) {
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.AuthenticationOk{})
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		question := ""
		for backend.Flush() == nil {
			message, err := backend.Receive()
			if err != nil {
				return
			}
			switch m := message.(type) {
			case *pgproto3.Parse:
				question = m.Query
				continue
			case *pgproto3.Query:
				question = m.String
			case *pgproto3.Sync:
				backend.Send(&pgproto3.ParseComplete{})
				backend.Send(&pgproto3.BindComplete{})
			default:
				continue
			}
			backend.Send(&pgproto3.RowDescription{})
			for _, row := range rows(question) {
				backend.Send(row)
			}
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT")})
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'T'})
		}
	}
}

func cells(values ...string) *pgproto3.DataRow {
	row := &pgproto3.DataRow{}
	for _, value := range values {
		row.Values = append(row.Values, []byte(value))
	}
	return row
}

func TestAHostileServerDoesNoHarm(t *testing.T) {
	t.Parallel()
	primary := func(then func(string) []*pgproto3.DataRow) func(string) []*pgproto3.DataRow {
		return func(question string) []*pgproto3.DataRow {
			switch {
			case strings.Contains(question, "pg_is_in_recovery"):
				return []*pgproto3.DataRow{cells("f")}
			case strings.Contains(question, "server_version_num"):
				return []*pgproto3.DataRow{cells("160000", "off")}
			}
			return then(question)
		}
	}
	many := make([]*pgproto3.DataRow, 200_000)
	for i := range many {
		many[i] = cells("f")
	}
	for name, rows := range map[string]func(string) []*pgproto3.DataRow{
		"no rows":                      func(string) []*pgproto3.DataRow { return nil },
		"rows without columns":         func(string) []*pgproto3.DataRow { return []*pgproto3.DataRow{cells()} },
		"no rows, later":               primary(func(string) []*pgproto3.DataRow { return nil }),
		"rows without columns, later":  primary(func(string) []*pgproto3.DataRow { return []*pgproto3.DataRow{cells()} }),
		"rows with very many columns":  primary(func(string) []*pgproto3.DataRow { return []*pgproto3.DataRow{cells(make([]string, 1000)...)} }),
		"yes to everything":            primary(func(string) []*pgproto3.DataRow { return []*pgproto3.DataRow{cells("t", "t", "t", "t", "t", "t")} }),
		"more rows than can be wanted": primary(func(string) []*pgproto3.DataRow { return many }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := fake(t, answering(rows))
			login := (&place{}).login("shop", "bank", readOnly)
			if _, err := manager.Ensure(t.Context(), endpoint, login); err != nil {
				_ = reason(t, err)
			}
			if err := manager.Drop(t.Context(), endpoint, login); err != nil {
				_ = reason(t, err)
			}
		})
	}
}

func TestADeadlineEndsWaiting(t *testing.T) {
	t.Parallel()
	endpoint := fake(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, iotest.OneByteReader(conn)) }) // listens, and never says a word
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	login := (&place{}).login("shop", "bank", readOnly)
	started := time.Now()
	_, err := manager.Ensure(ctx, endpoint, login)
	if got := reason(t, err); got != v1alpha1.ReasonUnreachable || time.Since(started) > 5*time.Second {
		t.Errorf("got %s (%v) after %s", got, err, time.Since(started))
	}
	if got := reason(t, manager.Drop(ctx, endpoint, login)); got != v1alpha1.ReasonUnreachable {
		t.Errorf("got %s", got)
	}
}
