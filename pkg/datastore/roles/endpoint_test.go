// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"fmt"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/test/servers"
)

func TestTheEndpointIsTheAdminsButForTheUser(t *testing.T) {
	t.Parallel()
	authority := servers.NewAuthority(t)
	certificate, key := authority.Certificate(t, "localhost")
	server := servers.Postgres(t, servers.PostgresOptions{
		Certificate: certificate, Key: key, Access: []string{"hostssl all all all scram-sha-256"}, //nolint:dupword // databases, users, addresses
	})
	server.Exec(t, "revoke create on schema public from public") // as it is from PostgreSQL 15 on
	parse := func(ca []byte) datastore.Endpoint {
		endpoint, err := datastore.Parse(v1alpha1.DriverPostgres, fmt.Sprintf(
			"postgres://postgres:%s@localhost:1,localhost:%d/postgres?sslmode=verify-full&channel_binding=require&application_name=shop&options=-c%%20geqo%%3Doff",
			server.Password, server.Port), ca)
		if err != nil {
			t.Fatal(err)
		}
		return endpoint
	}
	p := &place{database: "any", admin: parse(authority.PEM)}
	login := p.login("shop", "bank", readWrite)
	shop := p.ensure(t, login)
	if !shop.Equal(p.admin.WithLogin(login.Name(), login.Password)) || shop.User() != login.Name() || shop.Password() != login.Password {
		t.Error("the endpoint differs in more than user and password")
	}
	if p.admin.User() != "postgres" || p.admin.Password() != server.Password {
		t.Error("the admin's endpoint has changed")
	}
	if result := datastore.NewProber(datastore.ProberOptions{}).Probe(t.Context(), shop); !result.Valid() {
		t.Errorf("a probe says %s (%s)", result.Reason, result.Message)
	}
	p.drop(t, login)

	_, err := manager.Ensure(t.Context(), parse(servers.NewAuthority(t).PEM), login)
	if got := reason(t, err); got != v1alpha1.ReasonTLSVerificationFailed {
		t.Errorf("with another authority: %s (%v)", got, err)
	}
}
