// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// RedisOptions are what a server differs in. The zero value is one without TLS and passwords.
type RedisOptions struct {
	// Certificate and Key, in PEM, make it speak TLS, and nothing else.
	Certificate, Key []byte
	// Users are lines of an ACL file, such as "user app on >password ~* +@all".
	Users []string
	// Settings of redis.conf, such as "requirepass secret".
	Settings []string
}

// RedisServer is a server that runs.
type RedisServer struct {
	// Port on 127.0.0.1.
	Port int
}

// Redis starts a Valkey or Redis server.
func Redis(tb testing.TB, options RedisOptions) *RedisServer {
	tb.Helper()
	server := program(tb, "redis-server", "valkey-server")
	as := unprivileged(tb)
	dir := as.directory(tb)
	s := &RedisServer{Port: freePort(tb)}

	settings := append([]string{"bind 127.0.0.1", "dir " + dir, `save ""`, "appendonly no", "daemonize no"}, options.Settings...)
	if options.Certificate == nil {
		settings = append(settings, fmt.Sprintf("port %d", s.Port))
	} else {
		settings = append(settings, "port 0", fmt.Sprintf("tls-port %d", s.Port), "tls-auth-clients no",
			"tls-cert-file "+as.file(tb, filepath.Join(dir, "server.crt"), options.Certificate),
			"tls-key-file "+as.file(tb, filepath.Join(dir, "server.key"), options.Key))
	}
	if options.Users != nil {
		settings = append(settings, "aclfile "+as.file(tb, filepath.Join(dir, "users.acl"), []byte(strings.Join(options.Users, "\n")+"\n")))
	}
	file := as.file(tb, filepath.Join(dir, "redis.conf"), []byte(strings.Join(settings, "\n")+"\n"))
	serve(tb, as.command(dir, server, file), "Ready to accept connections")
	return s
}
