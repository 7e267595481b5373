// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

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
