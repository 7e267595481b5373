// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"encoding/pem"
	"errors"
	"maps"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/test/servers"
)

const (
	pg     = v1alpha1.DriverPostgres
	rd     = v1alpha1.DriverRedis
	vk     = v1alpha1.DriverValkey
	s3     = v1alpha1.DriverS3
	natsio = v1alpha1.DriverNATS
)

// The passwords of FR-19, and how they look percent-encoded.
const (
	commaPassword = `Lgrd}oKjF287_nUn6,=s<:O|`
	commaEncoded  = `Lgrd%7DoKjF287_nUn6%2C%3Ds%3C%3AO%7C`
	urlPassword   = `p@:/?#[]%41 &+$`
	urlEncoded    = `p%40%3A%2F%3F%23%5B%5D%2541%20%26%2B%24`
)

// parts are what a test expects of Endpoint.Parts.
type parts map[string]string

func TestParseUnderstands(t *testing.T) {
	for name, test := range map[string]struct {
		driver v1alpha1.Driver
		text   string
		want   parts
	}{
		"everything in a URL": {
			pg, "postgres://app:secret@db.example:5433/bank?sslmode=require",
			parts{"uri": "postgres://app:secret@db.example:5433/bank?sslmode=require", "host": "db.example", "port": "5433", "user": "app", "password": "secret", "database": "bank"},
		},
		"the least in a URL, without keys for what it lacks": {
			pg, "postgresql://app@db", parts{"uri": "postgresql://app@db", "host": "db", "user": "app"},
		},
		"a scheme in capitals": {
			pg, "PostgreSQL://app@db", parts{"uri": "postgresql://app@db", "host": "db", "user": "app"},
		},
		"an IPv6 address": {
			pg, "postgres://app@[2001:db8::1]:5433/bank",
			parts{"uri": "postgres://app@[2001:db8::1]:5433/bank", "host": "2001:db8::1", "port": "5433", "user": "app", "database": "bank"},
		},
		"an IPv6 address without a port": {
			pg, "postgres://app@[::1]", parts{"uri": "postgres://app@[::1]", "host": "::1", "user": "app"},
		},
		"several hosts, of which the parts have the first": {
			pg, "postgres://app@a:1,b,[::1]:3/bank?target_session_attrs=primary",
			parts{"uri": "postgres://app@a:1,b,[::1]:3/bank?target_session_attrs=primary", "host": "a", "port": "1", "user": "app", "database": "bank"},
		},
		"a password with every reserved character": {
			pg, "postgres://app:" + urlEncoded + "@db",
			parts{"uri": "postgres://app:" + urlEncoded + "@db", "host": "db", "user": "app", "password": urlPassword},
		},
		"reserved characters that are allowed raw, encoded all the same": {
			pg, "postgres://app:a,b=c!$&'()*+;@db",
			parts{"uri": "postgres://app:a%2Cb%3Dc%21%24%26%27%28%29%2A%2B%3B@db", "host": "db", "user": "app", "password": "a,b=c!$&'()*+;"},
		},
		"a user, a database and a password that are not ASCII": {
			pg, "postgres://%C3%BC:%F0%9F%94%91@db/%C3%A9%2F",
			parts{"uri": "postgres://%C3%BC:%F0%9F%94%91@db/%C3%A9%2F", "host": "db", "user": "ü", "password": "🔑", "database": "é/"},
		},
		"parts in the query, as libpq allows": {
			pg, "postgres://db/bank?user=app&password=" + commaEncoded,
			parts{"uri": "postgres://app:" + commaEncoded + "@db/bank", "host": "db", "user": "app", "password": commaPassword, "database": "bank"},
		},
		"hosts in the query": {
			pg, "postgres://app@/bank?host=a,b&port=1,2",
			parts{"uri": "postgres://app@a:1,b:2/bank", "host": "a", "port": "1", "user": "app", "database": "bank"},
		},
		"options of other clients, passed on": {
			pg, "postgres://app@db/bank?search_path=x%2Cy&connection_limit=5",
			parts{"uri": "postgres://app@db/bank?search_path=x%2Cy&connection_limit=5", "host": "db", "user": "app", "database": "bank"},
		},
		"the keyword form": {
			pg, `host=db port=5433 user=app password='it\'s a \\ secret' dbname=bank sslmode=verify-full`,
			parts{"uri": `postgresql://app:it%27s%20a%20%5C%20secret@db:5433/bank?sslmode=verify-full`, "host": "db", "port": "5433", "user": "app", "password": `it's a \ secret`, "database": "bank"},
		},
		"the keyword form with blanks, escapes and an IPv6 address": {
			pg, "  host = ::1\tuser=a\\ b  password = '' ",
			parts{"uri": "postgresql://a%20b@[::1]", "host": "::1", "user": "a b"},
		},
		"the keyword form with several hosts and one port": {
			pg, "host=a,b port=5433 user=app",
			parts{"uri": "postgresql://app@a:5433,b:5433", "host": "a", "port": "5433", "user": "app"},
		},
		"trust in the system's authorities": {
			pg, "postgres://app@db?sslrootcert=system",
			parts{"uri": "postgres://app@db?sslrootcert=system", "host": "db", "user": "app"},
		},
		"redis with a user": {
			rd, "redis://app:secret@cache:6380/2",
			parts{"uri": "redis://app:secret@cache:6380/2", "host": "cache", "port": "6380", "user": "app", "password": "secret", "database": "2"},
		},
		"redis with a password only": {
			rd, "redis://:secret@cache", parts{"uri": "redis://:secret@cache", "host": "cache", "password": "secret"},
		},
		"redis without credentials": {rd, "redis://cache", parts{"uri": "redis://cache", "host": "cache"}},
		"redis with a slash only":   {rd, "rediss://cache/", parts{"uri": "rediss://cache", "host": "cache"}},
		"redis with the database as an option": {
			rd, "redis://cache?db=03&protocol=3", parts{"uri": "redis://cache/3?protocol=3", "host": "cache", "database": "3"},
		},
		"valkey":          {vk, "valkey://:p%40ss@[fd00::1]:7000", parts{"uri": "valkey://:p%40ss@[fd00::1]:7000", "host": "fd00::1", "port": "7000", "password": "p@ss"}},
		"valkey with TLS": {vk, "valkeys://cache", parts{"uri": "valkeys://cache", "host": "cache"}},
		"an object store": {
			s3, "https://KEY:se%2Fcret@s3.example:9000/bucket?region=eu",
			parts{"uri": "https://KEY:se%2Fcret@s3.example:9000/bucket?region=eu", "host": "s3.example", "port": "9000", "user": "KEY", "password": "se/cret", "database": "bucket"},
		},
		"an object store below a path": {
			v1alpha1.DriverMinIO, "http://gateway/storage/v1/s3/", parts{"uri": "http://gateway/storage/v1/s3", "host": "gateway"},
		},
		"nats": {natsio, "nats://token@hub", parts{"uri": "nats://token@hub", "host": "hub", "user": "token"}},
		"nats with several hosts in one URL, written as its clients expect": {
			natsio, "tls://u:p@a:1,b:2", parts{"uri": "tls://u:p@a:1,tls://u:p@b:2", "host": "a", "port": "1", "user": "u", "password": "p"},
		},
		"nats with several URLs": {
			natsio, "nats://u:p@a,nats://b:2,nats://u:p@c", parts{"uri": "nats://u:p@a,nats://u:p@b:2,nats://u:p@c", "host": "a", "user": "u", "password": "p"},
		},
		"a database file": {
			v1alpha1.DriverSQLite, "file:/data/app.db?_journal=WAL",
			parts{"uri": "file:/data/app.db?_journal=WAL", "database": "/data/app.db"},
		},
		"a database in memory": {v1alpha1.DriverSQLite, ":memory:", parts{"uri": ":memory:", "database": ":memory:"}},
		"a directory":          {v1alpha1.DriverFS, "file:///var/lib/app", parts{"uri": "file:///var/lib/app"}},
		"memory":               {v1alpha1.DriverMemory, "memory://", parts{"uri": "memory://"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := datastore.Parse(test.driver, test.text, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := parts{}
			for key, value := range e.Parts() {
				got[key] = string(value)
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("parts of %s\n got %q\nwant %q", test.text, got, test.want)
			}
			again, err := datastore.Parse(test.driver, e.URI(), nil)
			if err != nil || !again.Equal(e) {
				t.Errorf("the URI %s is not read as what it was made from (%v)", e.URI(), err)
			}
		})
	}
}

func TestParseTrimsTheLineBreakOfAFileAndNothingElse(t *testing.T) {
	for _, end := range []string{"", "\n", "\r\n", "\n\n"} {
		e, err := datastore.Parse(pg, "postgres://u:secret%0A@h/db"+end, nil)
		if err != nil {
			t.Fatal(err)
		}
		if e.Trimmed() != (end != "") || e.Password() != "secret\n" || e.Database() != "db" {
			t.Errorf("with %q at the end: trimmed %t, password %q, database %q", end, e.Trimmed(), e.Password(), e.Database())
		}
	}
	if e, err := datastore.Parse(pg, "host=h user=u password=secret\n", nil); err != nil || e.Password() != "secret" || !e.Trimmed() {
		t.Errorf("keyword form: %v, trimmed %t", err, e.Trimmed())
	}
}

func TestAuthoritiesAreCertificatesAndNothingElse(t *testing.T) {
	authority := servers.NewAuthority(t)
	_, key := authority.Certificate(t, "h")

	e, err := datastore.Parse(pg, "postgres://u@h", append(key, authority.PEM...))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(e.Parts()[datastore.KeyCA]); got != string(authority.PEM) || got != string(e.CA()) {
		t.Errorf("kept %q", got)
	}
	for name, ca := range map[string][]byte{
		"no PEM":         []byte("hunter2"),
		"only a key":     key,
		"no certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("hunter2")}),
	} {
		_, err := datastore.Parse(pg, "postgres://u@h", ca)
		var refused *datastore.Error
		if !errors.As(err, &refused) || refused.Reason != v1alpha1.ReasonInvalidCertificateAuthority {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = datastore.Parse(pg, "postgres://u@h?sslrootcert=system", authority.PEM)
	var refused *datastore.Error
	if !errors.As(err, &refused) || refused.Reason != v1alpha1.ReasonUnsupportedTLSMode {
		t.Errorf("authorities beside those of the system: %v", err)
	}
}

func TestReadOnlyURIKeepsTheOptionsAndComesLast(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://u:p@h/db": "postgres://u:p@h/db?options=-c%20default_transaction_read_only%3Don",
		"postgres://u@h/db?options=-c%20search_path%3Dx&sslmode=require": "postgres://u@h/db?options=-c%20search_path%3Dx%20-c%20default_transaction_read_only%3Don&sslmode=require",
	} {
		e, err := datastore.Parse(pg, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := e.ReadOnlyURI(); !ok || got != want {
			t.Errorf("ReadOnlyURI of %s\n got %s\nwant %s", text, got, want)
		}
		if e.URI() != text {
			t.Errorf("the URI became %s", e.URI())
		}
	}
	e, err := datastore.Parse(rd, "redis://h", nil)
	if _, ok := e.ReadOnlyURI(); ok || err != nil {
		t.Errorf("redis has a read-only URI (%v)", err)
	}
}
