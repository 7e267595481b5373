// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/test/servers"
)

const (
	valid  = v1alpha1.ReasonValidated
	authed = v1alpha1.ReasonAuthenticationFailed
)

func TestRedisWithoutPasswords(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{Settings: []string{"databases 4"}})
	for text, want := range map[string]string{
		"redis://127.0.0.1:%d":                      valid,
		"valkey://127.0.0.1:%d/3":                   valid,
		"redis://127.0.0.1:1,127.0.0.1:%d":          valid,
		"redis://127.0.0.1:%d/4":                    v1alpha1.ReasonDatabaseNotFound,
		"redis://:hunter2@127.0.0.1:%d":             authed,
		"redis://hunter2:hunter2@127.0.0.1:%d":      authed,
		"redis://127.0.0.1:%d/0?client_name=cache1": valid,
	} {
		t.Run(text, func(t *testing.T) {
			got := probe(t, rd, fmt.Sprintf(text, server.Port), nil)
			expect(t, got, want)
			if want == valid && (got.SizeBytes == nil || *got.SizeBytes < 1000) {
				t.Errorf("the memory in use is %v", got.SizeBytes)
			}
		})
	}
}

func TestRedisWithOnePassword(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{Settings: []string{`requirepass "p@:/?#[]%41 &+$"`}})
	for text, want := range map[string]string{
		"redis://:" + urlEncoded + "@127.0.0.1:%d":        valid,
		"redis://default:" + urlEncoded + "@127.0.0.1:%d": valid,
		"redis://:hunter2@127.0.0.1:%d":                   authed,
		"redis://127.0.0.1:%d":                            authed,
	} {
		text = strings.ReplaceAll(text, urlEncoded, strings.ReplaceAll(urlEncoded, "%", "%%"))
		t.Run(text, func(t *testing.T) { expect(t, probe(t, rd, fmt.Sprintf(text, server.Port), nil), want) })
	}
	got := probe(t, rd, fmt.Sprintf("redis://127.0.0.1:%d", server.Port), nil)
	if !strings.Contains(got.Message, "NOAUTH") {
		t.Errorf("without a password: %s", got.Message)
	}
	got = probe(t, rd, fmt.Sprintf("redis://:hunter2@127.0.0.1:%d", server.Port), nil)
	if !strings.Contains(got.Message, "WRONGPASS") {
		t.Errorf("with a wrong password: %s", got.Message)
	}
}

// FR-21.
func TestRedisWithUsers(t *testing.T) {
	server := servers.Redis(t, servers.RedisOptions{Users: []string{
		"user default off",
		"user app on >secret ~* +@all",
		"user mute on >secret ~* +get +set",
		"user open on nopass ~* +@all",
		"user one on >secret ~* +@all -select",
	}})
	for text, want := range map[string]string{
		"redis://app:secret@127.0.0.1:%d":   valid,
		"redis://app:hunter2@127.0.0.1:%d":  authed,
		"redis://:secret@127.0.0.1:%d":      authed, // the user "default", which is off
		"redis://127.0.0.1:%d":              authed,
		"redis://mute:secret@127.0.0.1:%d":  valid, // may not PING, and is let in
		"redis://one:secret@127.0.0.1:%d":   valid,
		"redis://one:secret@127.0.0.1:%d/1": v1alpha1.ReasonPermissionDenied,
		"redis://open@127.0.0.1:%d":         valid,
	} {
		t.Run(text, func(t *testing.T) { expect(t, probe(t, rd, fmt.Sprintf(text, server.Port), nil), want) })
	}
	if got := probe(t, rd, fmt.Sprintf("redis://mute:secret@127.0.0.1:%d", server.Port), nil); !strings.Contains(got.Message, "may not run PING") {
		t.Errorf("a user that may not PING: %s", got.Message)
	}
	if got := probe(t, rd, fmt.Sprintf("redis://one:secret@127.0.0.1:%d/1", server.Port), nil); !strings.Contains(got.Message, "NOPERM") {
		t.Errorf("a user that may not SELECT: %s", got.Message)
	}
}

// FR-23, the part about rediss.
func TestRedisTLSIsVerified(t *testing.T) {
	authority := servers.NewAuthority(t)
	certificate, key := authority.Certificate(t, "localhost")
	server := servers.Redis(t, servers.RedisOptions{Certificate: certificate, Key: key})
	const failed = v1alpha1.ReasonTLSVerificationFailed
	for _, test := range []struct {
		text string
		ca   []byte
		want string
	}{
		{"rediss://localhost:%d", nil, failed},
		{"rediss://localhost:%d", authority.PEM, valid},
		{"valkeys://localhost:%d", authority.PEM, valid},
		{"rediss://127.0.0.1:%d", authority.PEM, failed},
		{"rediss://localhost:%d", servers.NewAuthority(t).PEM, failed},
		{"redis://localhost:%d", authority.PEM, v1alpha1.ReasonUnreachable},
	} {
		t.Run(fmt.Sprintf("%s with %d bytes of authority", test.text, len(test.ca)), func(t *testing.T) {
			expect(t, probe(t, rd, fmt.Sprintf(test.text, server.Port), test.ca), test.want)
		})
	}

	old, oldKey := authority.CertificateUntil(t, time.Now().Add(-time.Minute), "localhost")
	expired := servers.Redis(t, servers.RedisOptions{Certificate: old, Key: oldKey})
	got := probe(t, rd, fmt.Sprintf("rediss://localhost:%d", expired.Port), authority.PEM)
	if expect(t, got, failed); !strings.Contains(got.Message, "expired") {
		t.Errorf("an expired certificate: %s", got.Message)
	}
}

// listen is a server that says one thing to everybody.
func listen(t *testing.T, greeting string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			_, _ = conn.Write([]byte(greeting))
		}
	}()
	return l.Addr().String()
}

func TestRedisServersAreNotTrusted(t *testing.T) {
	for name, test := range map[string]struct{ greeting, want string }{
		"a long array":           {"*1000000000000\r\n", v1alpha1.ReasonUnreachable},
		"a long map":             {"%9999999999\r\n", v1alpha1.ReasonUnreachable},
		"a long string":          {"$1099511627776\r\n", v1alpha1.ReasonUnreachable},
		"a string of length -2":  {"$-2\r\n", v1alpha1.ReasonUnreachable},
		"an endless line":        {strings.Repeat("+", 1<<20), v1alpha1.ReasonUnreachable},
		"another protocol":       {"HTTP/1.1 400 Bad Request\r\n\r\n", v1alpha1.ReasonUnreachable},
		"nothing but line ends":  {"\r\n\r\n", v1alpha1.ReasonUnreachable},
		"an error with a secret": {"-ERR hunter2\r\n", v1alpha1.ReasonServerNotReady},
		"that it is loading":     {"-LOADING Redis is loading the dataset in memory\r\n", v1alpha1.ReasonServerNotReady},
		"that it is full":        {"-ERR max number of clients reached\r\n", v1alpha1.ReasonTooManyConnections},
		"that it is protected":   {"-DENIED Redis is running in protected mode\r\n", v1alpha1.ReasonPermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, probe(t, rd, "redis://:hunter2@"+listen(t, test.greeting), nil), test.want)
		})
	}
}
