// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/formspec/formspec-operator/test/servers"
)

// server is one that all tests share, and that the first of them starts.
type server[T any] struct {
	once   sync.Once
	keeper keeper
	it     T
}

// get starts the server unless it runs, and skips the test where it is not installed.
func (v *server[T]) get(s *scenario, start func(testing.TB) T) T {
	s.Helper()
	v.once.Do(func() { v.keeper.run(func() { v.it = start(&v.keeper) }) })
	switch {
	case v.keeper.skipped != "":
		s.Skip(v.keeper.skipped)
	case v.keeper.failed != "":
		s.Fatal(v.keeper.failed)
	}
	return v.it
}

// keeper is a test that lasts as long as the environment, for what is started in its name. It has what package servers uses.
type keeper struct {
	testing.TB // nil

	cleanups        []func()
	skipped, failed string
}

// run calls what may end the test, as tests are ended: with its goroutine.
func (k *keeper) run(start func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		start()
	}()
	<-ended
}

func (k *keeper) end() {
	for _, cleanup := range slices.Backward(k.cleanups) {
		cleanup()
	}
	k.cleanups = nil
}

func (k *keeper) Helper()                  {}
func (k *keeper) Context() context.Context { return context.Background() }
func (k *keeper) Cleanup(f func())         { k.cleanups = append(k.cleanups, f) }
func (k *keeper) Skip(args ...any)         { k.Skipf("%s", fmt.Sprint(args...)) }
func (k *keeper) Fatal(args ...any)        { k.Fatalf("%s", fmt.Sprint(args...)) }

func (k *keeper) Skipf(format string, args ...any) {
	k.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (k *keeper) Fatalf(format string, args ...any) {
	k.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// postgres is the PostgreSQL server of all tests. Whoever knows a password may use its database "app".
func (s *scenario) postgres() *servers.PostgresServer {
	s.Helper()
	return s.postgresServer.get(s, func(tb testing.TB) *servers.PostgresServer {
		tb.Helper()
		server := servers.Postgres(tb, servers.PostgresOptions{Settings: []string{"max_connections=200"}})
		server.Exec(tb, "CREATE DATABASE app", "GRANT CREATE ON DATABASE app TO PUBLIC")
		return server
	})
}

// redis is the Redis or Valkey server of all tests. Its password is "open sesame".
func (s *scenario) redis() *servers.RedisServer {
	s.Helper()
	return s.redisServer.get(s, func(tb testing.TB) *servers.RedisServer {
		tb.Helper()
		return servers.Redis(tb, servers.RedisOptions{Settings: []string{`requirepass "open sesame"`}})
	})
}

// redisURI is a connection string for the shared server.
func (s *scenario) redisURI() string {
	s.Helper()
	return fmt.Sprintf("redis://:open%%20sesame@127.0.0.1:%d", s.redis().Port)
}

// login is a user of the shared PostgreSQL server.
type login struct {
	*scenario
	server         *servers.PostgresServer
	user, password string
}

// login makes a user of the scenario's own.
func (s *scenario) login() *login {
	s.Helper()
	l := &login{scenario: s, server: s.postgres(), user: "u_" + rand.String(10), password: "pw" + rand.String(20)}
	l.server.Exec(s, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD %s", l.user, servers.Literal(l.password)))
	return l
}

// changePassword makes the connection strings from before useless.
func (l *login) changePassword(password string) {
	l.Helper()
	l.password = password
	l.server.Exec(l, fmt.Sprintf("ALTER ROLE %s PASSWORD %s", l.user, servers.Literal(password)))
}

// uri is the user's connection string.
func (l *login) uri() string { return l.uriWith(l.password) }

func (l *login) uriWith(password string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/app?sslmode=disable", l.user, encoded(password), l.server.Port)
}

// encoded percent-encodes for every place of a URL.
func encoded(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
