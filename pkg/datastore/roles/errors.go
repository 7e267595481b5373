// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

// refused is for what a user has to change on the server. The message must be a constant, or made from names of ours.
func refused(message string) error {
	return &datastore.Error{Reason: v1alpha1.ReasonRoleRefused, Message: message}
}

// failure maps what went wrong on the way to a purpose. Only the server's code counts, never its text.
func failure(purpose string, err error) error {
	if err == nil {
		return nil
	}
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(server.Code) != 5 || strings.Trim(server.Code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return &datastore.Error{Reason: v1alpha1.ReasonUnreachable, Message: "the connection to the server was lost, or it took too long"}
	}
	suffix := " (SQLSTATE " + server.Code + ")"
	switch server.Code {
	case "42501":
		return refused("the endpoint's user may not manage roles: it may not " + purpose + suffix + "; it must be a superuser, or have " +
			"CREATEROLE and own the database, and from PostgreSQL 16 on have made the roles or have ADMIN OPTION on them")
	case "0LP01":
		return refused("the server's roles do not allow to " + purpose + suffix)
	case "2BP01":
		return refused("the login owns what cannot be handed over, or something was granted to it by somebody else" + suffix)
	case "23505", "42710", "42704", "42P01", "40001", "40P01", "XX000": // made or dropped meanwhile; the last: "tuple concurrently updated"
		return collided(purpose + suffix)
	case "55P03", "57014":
		return &datastore.Error{
			Reason:  v1alpha1.ReasonServerNotReady,
			Message: "the server takes too long, or another session holds what is needed, to " + purpose + suffix,
		}
	}
	return &datastore.Error{Reason: v1alpha1.ReasonServerNotReady, Message: "the server answers with an error when it is to " + purpose + suffix}
}

// collision is a datastore.Error after which it is worth to try again at once.
type collision struct{ as datastore.Error }

func collided(purpose string) error {
	const message = "somebody else keeps changing the same roles, so that one cannot "
	return &collision{datastore.Error{Reason: v1alpha1.ReasonServerNotReady, Message: message + purpose}}
}

func (c *collision) Error() string { return c.as.Message }

func (c *collision) Unwrap() []error { return []error{&c.as, errCollision} }
