// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// redis is Redis and Valkey, which speak one protocol.
type redis struct{}

const redisPort = 6379

func (redis) parse(text string, into *parsed) error {
	u, err := parseURI(text, "redis", "rediss", "valkey", "valkeys")
	if err != nil {
		return err
	}
	if len(u.hosts) == 0 {
		return errNoHost
	}
	database, err := u.singleSegment()
	if err != nil {
		return err
	}
	into.scheme, into.user, into.password, into.hosts = u.scheme, u.user, u.password, u.hosts
	for _, o := range u.options {
		name := strings.ToLower(o.name)
		switch {
		case name == "db":
			if database != "" {
				return errTwice
			}
			database = o.value
		case name == "user", name == "username", name == "password":
			return unsupportedOption("the user and the password belong before the @, not into an option")
		case strings.HasPrefix(name, "ssl"), strings.HasPrefix(name, "tls"), strings.Contains(name, "verify"), strings.Contains(name, "insecure"):
			return unsupportedTLSMode("rediss:// and valkeys:// always verify the server, with the certificates in the Secret if there are any; " +
				"options about it are not supported")
		default:
			into.options = append(into.options, o)
		}
	}
	if database != "" {
		n, err := strconv.ParseUint(database, 10, 31)
		if err != nil {
			return invalid("the path of the connection string is not the number of a database")
		}
		into.database = strconv.FormatUint(n, 10)
	}
	return nil
}

func (redis) probe(ctx context.Context, n network, p *parsed) Result {
	return eachHost(ctx, p.hosts, redisPort, func(ctx context.Context, host HostPort) Result {
		secure := p.scheme == "rediss" || p.scheme == "valkeys"
		conn, err := n.dial(ctx, host)
		if err != nil {
			return unreachable()
		}
		defer conn.Close()
		if secure {
			if conn, err = handshake(ctx, conn, clientTLS(host.Host, verifyFull, p.ca)); err != nil {
				return handshakeFailed(err)
			}
		}
		return redisSession(newRESP(conn), p)
	})
}

// redisSession logs in, chooses the database and asks for a sign of life.
func redisSession(r *resp, p *parsed) Result {
	if p.user != "" || p.password != "" {
		login := []string{"AUTH"}
		if p.user != "" {
			login = append(login, p.user) // with one argument, the server assumes the user "default"
		}
		if _, err := r.do(append(login, p.password)...); err != nil {
			return redisFailed(err)
		}
	}
	if p.database != "" && p.database != "0" {
		if _, err := r.do("SELECT", p.database); err != nil {
			failure := redisFailed(err)
			if failure.Reason == v1alpha1.ReasonServerNotReady { // "out of range", or a cluster, which has one database only
				failure = Result{Reason: v1alpha1.ReasonDatabaseNotFound, Message: "the server has no database with the number in the connection string"}
			}
			return failure
		}
	}
	result := Result{Reason: v1alpha1.ReasonValidated, Message: "the server accepts the credentials"}
	if _, err := r.do("PING"); err != nil {
		failure := redisFailed(err)
		if failure.Reason != v1alpha1.ReasonPermissionDenied {
			return failure
		}
		// What a user may do is the owner's affair, and one that may not PING has been let in all the same.
		result.Message += ", and its user may not run PING"
	}
	if info, err := r.do("INFO", "memory"); err == nil {
		result.SizeBytes = usedMemory(info)
	}
	return result
}

func usedMemory(info string) *int64 {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); found {
			if size, err := strconv.ParseInt(value, 10, 64); err == nil {
				return &size
			}
		}
	}
	return nil
}

// redisFailed maps the server's error codes. Those without a code of their own are told apart by words that have been the
// same in every version.
func redisFailed(err error) Result {
	var reply respError
	if !errors.As(err, &reply) {
		return unreachable()
	}
	text := string(reply)
	code, _, _ := strings.Cut(text, " ")
	switch {
	case code == "NOAUTH":
		return Result{Reason: v1alpha1.ReasonAuthenticationFailed, Message: "the server wants a password, and the connection string has none (NOAUTH)"}
	case code == "WRONGPASS", strings.HasPrefix(text, "ERR invalid password"):
		return Result{Reason: v1alpha1.ReasonAuthenticationFailed, Message: "the server refuses the user or the password (WRONGPASS)"}
	case strings.HasPrefix(text, "ERR AUTH"), strings.HasPrefix(text, "ERR Client sent AUTH"):
		return Result{Reason: v1alpha1.ReasonAuthenticationFailed, Message: "the server has no password set, and the connection string has one"}
	case code == "NOPERM":
		return Result{Reason: v1alpha1.ReasonPermissionDenied, Message: "the user lacks the permission to select its database (NOPERM)"}
	case code == "DENIED":
		return Result{Reason: v1alpha1.ReasonPermissionDenied, Message: "the server refuses connections from other machines (protected mode)"}
	case strings.HasPrefix(text, "ERR max number of clients"):
		return Result{Reason: v1alpha1.ReasonTooManyConnections, Message: "the server has no connection left"}
	case code == "LOADING":
		return Result{Reason: v1alpha1.ReasonServerNotReady, Message: "the server is loading its data"}
	}
	return Result{Reason: v1alpha1.ReasonServerNotReady, Message: "the server answers with an error"}
}
