// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"slices"
	"strings"
)

// postgres reads both of libpq's forms of connection string. postgres_probe.go tries them.
type postgres struct{}

const postgresPort = 5432

func (postgres) parse(text string, into *parsed) error {
	var settings []option
	switch {
	case schemeOf(text) != "":
		u, err := parseURI(text, "postgresql", "postgres")
		if err != nil {
			return err
		}
		into.scheme, into.user, into.password, into.hosts = u.scheme, u.user, u.password, u.hosts
		if into.database, err = u.singleSegment(); err != nil {
			return err
		}
		settings = u.options
	case strings.Contains(text, "="):
		var err error
		if settings, err = parseKeywords(text); err != nil {
			return err
		}
		into.scheme = "postgresql"
	default:
		return invalid("the connection string is neither a URL that begins with postgresql:// nor of the form keyword=value")
	}
	if err := postgresSettings(settings, text, into); err != nil {
		return err
	}
	switch {
	case len(into.hosts) == 0:
		return errNoHost
	case into.user == "":
		return invalid("the connection string names no user")
	}
	return checkTLSOptions(into)
}

// postgresSettings sorts settings into the parts that they are about, and keeps the rest as options.
func postgresSettings(settings []option, text string, into *parsed) error {
	isURL := schemeOf(text) != ""
	parts := map[string]*string{"user": &into.user, "password": &into.password, "dbname": &into.database}
	host, port, unknown, password := "", "", false, false
	for _, o := range settings {
		if o.value == "" {
			continue // as if it were not there, as in libpq
		}
		part, isPart := parts[o.name]
		switch {
		case isPart:
			if *part != "" {
				return errTwice
			}
			*part = o.value
			password = password || o.name == "password"
		case o.name == "host":
			host = o.value
		case o.name == "port":
			port = o.value
		default:
			known, err := checkPostgresOption(o)
			if err != nil {
				return err
			}
			unknown = unknown || !known
			into.options = append(into.options, o)
		}
	}
	switch {
	case unknown && !isURL:
		return errKeyword
	case unknown && password:
		// "?password=a&b=c" may be the password "a&b=c".
		return errEncode
	}
	return postgresHosts(host, port, into)
}

// postgresHosts reads the lists in the settings host and port, which a URL has instead of hosts before the path.
func postgresHosts(host, port string, into *parsed) error {
	switch {
	case host == "" && port == "":
		return nil
	case len(into.hosts) > 0 || host == "" && port != "":
		if len(into.hosts) == 0 {
			return errNoHost
		}
		return errTwice
	}
	names, ports := strings.Split(host, ","), strings.Split(port, ",")
	if len(ports) != 1 && len(ports) != len(names) {
		return errPorts
	}
	for i, name := range names {
		if err := checkHost(name); err != nil {
			return err
		}
		h := HostPort{Host: name}
		if text := ports[min(i, len(ports)-1)]; text != "" {
			var err error
			if h.Port, err = parsePort(text); err != nil {
				return err
			}
		}
		into.hosts = append(into.hosts, h)
	}
	return nil
}

// What becomes of libpq's options. The probe honours those about TLS and authentication and "options", which may say
// where a proxy routes to; the others say how an application uses its connection and are only passed on.
var (
	postgresValues = map[string][]string{
		"sslmode":                  {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"},
		"sslnegotiation":           {"postgres", "direct"},
		"sslsni":                   {"0", "1"},
		"sslcertmode":              {"disable", "allow"},
		"ssl_min_protocol_version": {"TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"},
		"ssl_max_protocol_version": {"TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"},
		"channel_binding":          {"disable", "prefer", "require"},
		"gssencmode":               {"disable", "prefer"},
		"target_session_attrs":     {"any", "read-write", "read-only", "primary", "standby", "prefer-standby"},
		"load_balance_hosts":       {"disable", "random"},
		"min_protocol_version":     {"3.0", "3.2", "latest"},
		"max_protocol_version":     {"3.0", "3.2", "latest"},
	}
	postgresPassedOn = []string{
		"options", "require_auth", "application_name", "fallback_application_name", "client_encoding", "connect_timeout",
		"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "replication", "sslcompression",
	}
	postgresFiles = []string{"sslcert", "sslkey", "sslcrl", "sslcrldir", "sslkeylogfile", "passfile", "service", "servicefile", "oauth_ca_file"}
	postgresOther = []string{
		"sslpassword", "requiressl", "requirepeer", "hostaddr", "krbsrvname", "krbspn", "gsslib", "gssdelegation", "scram_client_key",
		"scram_server_key", "oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope",
	}
	requireAuthMethods = []string{"password", "md5", "gss", "sspi", "scram-sha-256", "oauth", "none"}
)

// checkPostgresOption reports whether libpq knows the option. It names options of the tables above only: an unknown name
// may be a piece of a password.
func checkPostgresOption(o option) (known bool, err error) {
	values, limited := postgresValues[o.name]
	switch {
	case limited && !slices.Contains(values, o.value):
		message := "the option " + o.name + " has a value that is none of " + strings.Join(values, ", ")
		if o.name == "sslmode" {
			return true, unsupportedTLSMode(message)
		}
		return true, invalid(message)
	case limited:
		return true, nil
	case o.name == "sslrootcert":
		if o.value != "system" {
			return true, unsupportedOption("the option sslrootcert names a file: give the certificates in the Secret instead")
		}
		return true, nil
	case o.name == "require_auth":
		return true, checkRequireAuth(o.value)
	case o.name == "options" && strings.HasSuffix(o.value, `\`):
		return true, invalid("the option options ends in a backslash")
	case slices.Contains(postgresPassedOn, o.name):
		return true, nil
	case slices.Contains(postgresFiles, o.name):
		return true, unsupportedOption("the option " + o.name + " names a file, and those of the operator are not the application's")
	case slices.Contains(postgresOther, o.name):
		return true, unsupportedOption("the option " + o.name + " is not supported")
	case strings.HasPrefix(strings.ToLower(o.name), "ssl"), strings.HasPrefix(strings.ToLower(o.name), "tls"):
		// A misspelt sslmode must not turn verification off.
		return false, unsupportedTLSMode("the connection string has an option about TLS that libpq does not know: use sslmode")
	}
	return false, nil
}

func checkRequireAuth(value string) error {
	for method := range strings.SplitSeq(value, ",") {
		if !slices.Contains(requireAuthMethods, strings.TrimPrefix(method, "!")) || strings.HasPrefix(method, "!") != (value[0] == '!') {
			return invalid("the option require_auth is not a list of " + strings.Join(requireAuthMethods, ", "))
		}
	}
	return nil
}

// checkTLSOptions refuses the combinations that libpq refuses.
func checkTLSOptions(p *parsed) error {
	mode := p.option("sslmode")
	switch {
	case p.option("sslrootcert") == "system" && p.ca != nil:
		return unsupportedTLSMode("sslrootcert=system and certificates in the Secret exclude each other")
	case p.option("sslrootcert") == "system" && mode != "" && mode != "verify-full":
		return unsupportedTLSMode("sslrootcert=system needs sslmode=verify-full")
	case p.option("sslnegotiation") == "direct" && (postgresMode(p) == "disable" || postgresMode(p) == "allow" || postgresMode(p) == "prefer"):
		return unsupportedTLSMode("sslnegotiation=direct needs sslmode=require or stronger")
	case p.option("ssl_min_protocol_version") > p.option("ssl_max_protocol_version") && p.option("ssl_max_protocol_version") != "":
		return unsupportedTLSMode("ssl_min_protocol_version is later than ssl_max_protocol_version")
	}
	return nil
}

// postgresMode is the sslmode in force.
func postgresMode(p *parsed) string {
	switch mode := p.option("sslmode"); {
	case mode != "":
		return mode
	case p.option("sslrootcert") == "system":
		return "verify-full"
	}
	return "prefer"
}
