// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

// stateServer lets everybody in, and answers every question with the same rows. It returns its address.
func stateServer(t *testing.T, rows ...[]string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		backend := pgproto3.NewBackend(conn, conn)
		if _, err := backend.ReceiveStartupMessage(); err != nil {
			return
		}
		backend.Send(&pgproto3.AuthenticationOk{})
		backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		for backend.Flush() == nil {
			message, err := backend.Receive()
			if err != nil {
				return
			}
			if _, asked := message.(*pgproto3.Query); !asked {
				continue
			}
			backend.Send(&pgproto3.RowDescription{})
			for _, row := range rows {
				data := &pgproto3.DataRow{}
				for _, cell := range row {
					data.Values = append(data.Values, []byte(cell))
				}
				backend.Send(data)
			}
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT")})
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

func TestTargetSessionAttributes(t *testing.T) {
	nothing, noColumn := stateServer(t), stateServer(t, []string{})
	two, twice := stateServer(t, []string{"f", "f"}), stateServer(t, []string{"t"}, []string{"t"})
	yes, no, on, off := stateServer(t, []string{"t"}), stateServer(t, []string{"f"}), stateServer(t, []string{"on"}), stateServer(t, []string{"off"})
	for attribute, accepted := range map[string]string{"read-write": off, "read-only": on, "primary": no, "standby": yes} {
		for name, server := range map[string]string{
			"no row": nothing, "no column": noColumn, "two columns": two, "two rows": twice, "t": yes, "f": no, "on": on, "off": off,
		} {
			t.Run(attribute+", answered by "+name, func(t *testing.T) {
				want := v1alpha1.ReasonServerNotReady
				if server == accepted {
					want = v1alpha1.ReasonValidated
				}
				expect(t, probe(t, pg, "postgres://u:secret@"+server+"/d?sslmode=disable&target_session_attrs="+attribute, nil), want)
			})
		}
	}
	// Without a standby, any server will do.
	expect(t, probe(t, pg, "postgres://u:secret@"+nothing+"/d?sslmode=disable&target_session_attrs=prefer-standby", nil), v1alpha1.ReasonValidated)
	// What is worked on must be sure to take writes.
	endpoint := parse(t, pg, "postgres://u:secret@"+nothing+"/d?sslmode=disable", nil)
	prober := datastore.NewProber(datastore.ProberOptions{})
	if err := prober.Session(t.Context(), endpoint, func(context.Context, *pgconn.PgConn) error { return nil }); err == nil {
		t.Error("a session is opened with a server that does not say whether it takes writes")
	}
}
