// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

const connectTimeout = 10 * time.Second

// connected is the answer of /connect.
type connected struct {
	User string `json:"user,omitempty"` // as PostgreSQL calls whoever is logged in
}

// connect never answers with anything that a connection string has in it but the user.
func (s *server) connect(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	uri := os.Getenv(name)
	if !ours(name) || uri == "" {
		fail(w, http.StatusNotFound, fmt.Errorf("there is no variable %q that begins with FORMSPEC_ or FORMA_", name))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), connectTimeout)
	defer cancel()
	who, err := logIn(ctx, uri)
	if err != nil {
		fail(w, http.StatusBadGateway, err)
		return
	}
	answer(w, connected{User: who})
}

func logIn(ctx context.Context, uri string) (user string, err error) {
	scheme, _, _ := strings.Cut(uri, "://")
	switch scheme {
	case "postgres", "postgresql":
		return logInToPostgres(ctx, uri)
	case "redis", "rediss", "valkey", "valkeys":
		return "", probe(ctx, v1alpha1.DriverRedis, uri)
	default:
		return "", errors.New("the connection string is neither of PostgreSQL nor of Redis")
	}
}

// logInToPostgres uses the client as apps do, with all that its connection string can say.
func logInToPostgres(ctx context.Context, uri string) (string, error) {
	conn, err := pgconn.Connect(ctx, uri)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return "", fmt.Errorf("PostgreSQL refuses the login with SQLSTATE %s", refused.Code)
	}
	if err != nil {
		return "", errors.New("PostgreSQL cannot be reached") // the error has the connection string
	}
	defer conn.Close(context.WithoutCancel(ctx))
	result := conn.ExecParams(ctx, "SELECT current_user", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return "", result.Err
	}
	return string(result.Rows[0][0]), nil
}

// probe uses the operator's own client, there is no other in this module.
func probe(ctx context.Context, driver v1alpha1.Driver, uri string) error {
	endpoint, err := datastore.Parse(driver, uri, nil)
	if err != nil {
		return err // which are written to be shown
	}
	if result := datastore.NewProber(datastore.ProberOptions{}).Probe(ctx, endpoint); !result.Valid() {
		return errors.New(result.Message)
	}
	return nil
}
