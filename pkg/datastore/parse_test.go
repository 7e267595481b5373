// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"encoding/pem"
	"errors"
	"maps"
	"strings"
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

func TestParseRefuses(t *testing.T) {
	const (
		invalid = v1alpha1.ReasonInvalidConnectionString
		option  = v1alpha1.ReasonUnsupportedOption
		mode    = v1alpha1.ReasonUnsupportedTLSMode
	)
	for name, test := range map[string]struct {
		driver v1alpha1.Driver
		text   string
		reason string
		says   string
	}{
		"nothing":                                  {pg, "", invalid, "empty"},
		"nothing but a line break":                 {pg, "\r\n", invalid, "empty"},
		"a NUL":                                    {pg, "postgres://u@h/\x00", invalid, "NUL"},
		"a NUL in disguise":                        {pg, "postgres://u:%00@h", invalid, "NUL"},
		"something endless":                        {pg, "postgres://u@h/" + strings.Repeat("x", 20000), invalid, "longer"},
		"a password only":                          {pg, "hunter2", invalid, "neither a URL"},
		"another scheme":                           {pg, "mysql://u@h", invalid, "postgresql://"},
		"a scheme of another driver":               {rd, "postgres://u@h", invalid, "redis://"},
		"a Unix socket of redis":                   {rd, "unix:///run/redis.sock", invalid, "redis://"},
		"no host":                                  {pg, "postgres://u@/db", invalid, "no host"},
		"no host in the keyword form":              {pg, "user=u dbname=d", invalid, "no host"},
		"a port without a host":                    {pg, "user=u port=1", invalid, "no host"},
		"no user":                                  {pg, "postgres://h/db", invalid, "no user"},
		"an empty host in a list":                  {pg, "postgres://u@a,,b", invalid, "no host"},
		"a Unix socket":                            {pg, "postgres://u@%2Fvar%2Frun/db", invalid, "Unix socket"},
		"a Unix socket in the keyword form":        {pg, "host=/var/run user=u", invalid, "Unix socket"},
		"an abstract Unix socket":                  {pg, "host=@sock user=u", invalid, "Unix socket"},
		"a port that is no number (FR-18)":         {pg, "postgres://u:hunter2@h:abc/db", invalid, "port"},
		"a port that is too high":                  {pg, "postgres://u@h:65536", invalid, "port"},
		"port 0":                                   {pg, "postgres://u@h:0", invalid, "port"},
		"a port with a sign":                       {pg, "host=h port=+1 user=u", invalid, "port"},
		"more ports than hosts":                    {pg, "host=a,b port=1,2,3 user=u", invalid, "as many ports"},
		"IPv6 without brackets":                    {pg, "postgres://u@2001:db8::1/db", invalid, "brackets"},
		"a zone":                                   {pg, "postgres://u@[fe80::1%25eth0]/db", invalid, "host"},
		"a name in brackets":                       {pg, "postgres://u@[db]/db", invalid, "host"},
		"two databases":                            {pg, "postgres://u@h/a?dbname=b", invalid, "twice"},
		"two passwords":                            {pg, "postgres://u:a@h?password=b", invalid, "twice"},
		"two lists of hosts":                       {pg, "postgres://u@h?host=i", invalid, "twice"},
		"an option twice":                          {pg, "postgres://u@h?sslmode=require&sslmode=disable", invalid, "twice"},
		"a keyword twice":                          {pg, "host=h user=u user=v", invalid, "twice"},
		"a % without digits (FR-18)":               {pg, "postgres://u:p%SShunter2@h/db", invalid, "percent-encode"},
		"a % at the end":                           {pg, "postgres://u@h/db%4", invalid, "percent-encode"},
		"a raw / in a password":                    {pg, "postgres://u:p/w@h/db", invalid, "percent-encode"},
		"a raw / after digits":                     {pg, "postgres://u:12/w@h/db", invalid, "percent-encode"},
		"a raw @ in a password":                    {pg, "postgres://u:p@w@h/db", invalid, "percent-encode"},
		"a raw @ and / in a password":              {pg, "postgres://u:p@w/x@h/db", invalid, "percent-encode"},
		"a raw # in a password":                    {pg, "postgres://u:p#w@h/db", invalid, "percent-encode"},
		"a raw ? in a password":                    {pg, "postgres://u:p?w@h/db", invalid, "percent-encode"},
		"a raw ? before what looks like an option": {pg, "postgres://u:1?user=x@h/db", invalid, "percent-encode"},
		"a raw [ in a password":                    {pg, "postgres://u:p[w@h/db", invalid, "percent-encode"},
		"a raw : in a password":                    {pg, "postgres://u:p:w@h/db", invalid, "percent-encode"},
		"a raw space in a password":                {pg, "postgres://u:p w@h/db", invalid, "percent-encode"},
		"a raw backslash in a password":            {pg, `postgres://u:p\w@h/db`, invalid, "percent-encode"},
		"a raw umlaut in a password":               {pg, "postgres://u:pä@h/db", invalid, "percent-encode"},
		"a line break in the middle":               {pg, "postgres://u:p\n@h/db", invalid, "percent-encode"},
		"the first password of FR-19, raw":         {pg, "postgres://u:" + commaPassword + "@h/db", invalid, "percent-encode"},
		"the second password of FR-19, raw":        {pg, "postgres://u:" + urlPassword + "@h/db", invalid, "percent-encode"},
		"a raw + in an option":                     {pg, "postgres://u@h/db?options=-c+x", invalid, "percent-encode"},
		"a raw & in a password in the query":       {pg, "postgres://h?user=u&password=a&b", invalid, "percent-encode"},
		"a raw & and = in a password in the query": {pg, "postgres://h?user=u&password=a&b=c", invalid, "percent-encode"},
		"a raw = in an option":                     {pg, "postgres://u@h?options=a=b", invalid, "percent-encode"},
		"a raw / in a database":                    {pg, "postgres://u@h/a/b", invalid, "percent-encode"},
		"a raw / in redis's password":              {rd, "redis://:p/w@h", invalid, "percent-encode"},
		"a raw / in an object store's secret key":  {s3, "https://KEY:se/cret@s3", invalid, "percent-encode"},
		"a space in an unquoted keyword value":     {pg, "host=h user=u password=a b", invalid, "quotes"},
		"a space before what looks like a keyword": {pg, "host=h user=u password=a b=c", invalid, "quotes"},
		"a raw quote in a quoted value":            {pg, "host=h user=u password='a'b'", invalid, "quotes"},
		"a quote that does not end":                {pg, "host=h user=u password='a", invalid, "quote"},
		"an unknown keyword":                       {pg, "host=h user=u hunter2=x", invalid, "quotes"},
		"a bogus sslmode (FR-23)":                  {pg, "postgres://u@h?sslmode=bogus", mode, "verify-full"},
		"an sslmode in capitals":                   {pg, "host=h user=u sslmode=REQUIRE", mode, "verify-full"},
		"a misspelt sslmode":                       {pg, "postgres://u@h?sslmdoe=verify-full", mode, "sslmode"},
		"an option that switches TLS elsewhere":    {pg, "postgres://u@h?ssl=true", mode, "sslmode"},
		"system authorities that do not verify":    {pg, "postgres://u@h?sslrootcert=system&sslmode=require", mode, "verify-full"},
		"direct negotiation with a weak mode":      {pg, "postgres://u@h?sslnegotiation=direct", mode, "sslmode=require"},
		"TLS versions that exclude each other":     {pg, "postgres://u@h?ssl_min_protocol_version=TLSv1.3&ssl_max_protocol_version=TLSv1.2", mode, "later"},
		"a file of authorities":                    {pg, "postgres://u@h?sslrootcert=/etc/passwd", option, "in the Secret"},
		"a file of a client certificate":           {pg, "postgres://u@h?sslcert=/x&sslkey=/y", option, "sslcert"},
		"a file of passwords":                      {pg, "host=h user=u passfile=/root/.pgpass", option, "passfile"},
		"a service":                                {pg, "service=prod", option, "service"},
		"a file to log TLS keys into":              {pg, "postgres://u@h?sslkeylogfile=/tmp/x", option, "sslkeylogfile"},
		"a password of a key":                      {pg, "postgres://u@h?sslpassword=hunter2", option, "sslpassword"},
		"an address beside the host":               {pg, "host=h hostaddr=10.0.0.1 user=u", option, "hostaddr"},
		"a value that libpq does not know":         {pg, "postgres://u@h?channel_binding=hunter2", invalid, "channel_binding"},
		"a way of authentication that is none":     {pg, "postgres://u@h?require_auth=hunter2", invalid, "require_auth"},
		"options that end in a backslash":          {pg, `postgres://u@h?options=x%5C`, invalid, "backslash"},
		"a database of redis that is no number":    {rd, "redis://h/hunter2", invalid, "number"},
		"credentials of redis in the query":        {rd, "redis://h?password=hunter2", option, "before the @"},
		"redis without verification":               {rd, "rediss://h?skip_verify=true", mode, "always verify"},
		"redis without verification, in Python":    {rd, "rediss://h?ssl_cert_reqs=none", mode, "always verify"},
		"several object stores":                    {s3, "https://a,b", invalid, "one endpoint"},
		"nats with a path":                         {natsio, "nats://h/x", invalid, "path"},
		"nats with different users":                {natsio, "nats://a:b@h,nats://c:d@i", invalid, "differ"},
		"a relative directory":                     {v1alpha1.DriverFS, "var/lib", invalid, "absolute"},
		"a database file that is none":             {v1alpha1.DriverSQLite, "sqlite://", invalid, "path"},
		"a database file of another driver":        {v1alpha1.DriverSQLite, "postgres://u:hunter2@h", invalid, "path"},
		"a control character":                      {v1alpha1.DriverMemory, "a\x1bb", invalid, "control"},
		"an unknown driver":                        {"oracle", "oracle://u@h", v1alpha1.ReasonInvalidSpec, "driver"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := datastore.Parse(test.driver, test.text, nil)
			if !e.IsZero() {
				t.Error("there is an endpoint beside the error")
			}
			var refused *datastore.Error
			if !errors.As(err, &refused) {
				t.Fatalf("%q is not refused: %v", test.text, err)
			}
			if refused.Reason != test.reason || !strings.Contains(refused.Message, test.says) {
				t.Errorf("%q is refused with %s: %s; want %s and something about %q", test.text, refused.Reason, refused.Message, test.reason, test.says)
			}
			if strings.Contains(refused.Message, "hunter2") {
				t.Errorf("the message repeats a part of the connection string: %s", refused.Message)
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
	if got := string(e.Parts()[datastore.KeyCA]); got != string(authority.PEM) {
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
