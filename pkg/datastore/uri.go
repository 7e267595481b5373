// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"encoding/hex"
	"slices"
	"strings"
)

// uri is a connection string in URL form, taken apart. net/url is of no use here: it knows one host only, and its errors
// quote what they could not parse, password included.
type uri struct {
	scheme         string
	user, password string
	hosts          []HostPort
	path           string // without the first slash, and still encoded
	options        []option
}

// schemeOf is the scheme of a text in URL form, in lower case; empty if it is in another form.
func schemeOf(text string) string {
	scheme, _, found := strings.Cut(text, "://")
	if !found || scheme == "" || strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz0123456789+.-") != "" {
		return ""
	}
	return strings.ToLower(scheme)
}

// parseURI is strict on purpose. Clients disagree about characters that should have been percent-encoded and were not:
// some split at the first "@", others at the last, and a "/" in a password moves the rest of it into the path. So a
// character with a meaning in URLs is accepted where it has it, once, and nowhere else.
func parseURI(text string, schemes ...string) (uri, error) {
	u := uri{scheme: schemeOf(text)}
	if !slices.Contains(schemes, u.scheme) {
		return uri{}, invalid("the connection string must begin with " + strings.Join(schemes, ":// or ") + "://")
	}
	rest := text[len(u.scheme)+len("://"):]
	if err := checkCharacters(rest); err != nil {
		return uri{}, err
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if strings.ContainsAny(tail, "@[]") || strings.Count(authority, "@") > 1 {
		return uri{}, errEncode
	}
	if userinfo, hosts, found := strings.Cut(authority, "@"); found {
		authority = hosts
		user, password, _ := strings.Cut(userinfo, ":")
		if strings.ContainsAny(userinfo, "[]") || strings.Contains(password, ":") {
			return uri{}, errEncode
		}
		u.user, u.password = decode(user), decode(password)
	}
	var err error
	if authority != "" {
		if u.hosts, err = parseAuthority(authority); err != nil {
			return uri{}, err
		}
	}
	path, query, _ := strings.Cut(tail, "?")
	u.path = strings.TrimPrefix(path, "/")
	u.options, err = parseQuery(query)
	return u, err
}

// checkCharacters refuses what may not be in a URL at all, and what would begin a fragment, which no connection string has.
func checkCharacters(s string) error {
	for i := range len(s) {
		switch c := s[i]; {
		case unreserved(c), strings.IndexByte("!$&'()*+,;=:/?[]@", c) >= 0:
		case c == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return errPercent
			}
			if s[i+1:i+3] == "00" {
				return errNUL
			}
		default:
			return errEncode
		}
	}
	return nil
}

// parseAuthority reads hosts with optional ports, separated by commas.
func parseAuthority(s string) ([]HostPort, error) {
	var hosts []HostPort
	for item := range strings.SplitSeq(s, ",") {
		host, port, err := splitHostPort(item)
		if err != nil {
			return nil, err
		}
		if err := checkHost(host); err != nil {
			return nil, err
		}
		h := HostPort{Host: host}
		if port != "" { // "h:" is "h", as RFC 3986 has it
			if h.Port, err = parsePort(port); err != nil {
				return nil, err
			}
		}
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// splitHostPort is net.SplitHostPort with an optional port. An address in brackets must be one that needs them.
func splitHostPort(s string) (host, port string, err error) {
	if inner, bracketed := strings.CutPrefix(s, "["); bracketed {
		address, after, closed := strings.Cut(inner, "]")
		if !closed || !strings.Contains(address, ":") || after != "" && after[0] != ':' {
			return "", "", errHost
		}
		return decode(address), strings.TrimPrefix(after, ":"), nil
	}
	host, port, _ = strings.Cut(s, ":")
	if host = decode(host); strings.Contains(host, ":") || strings.Contains(port, ":") {
		return "", "", errHost
	}
	return host, port, nil
}

// parseQuery reads the options. A raw "+" is refused: for some clients it is a plus, for others a space.
func parseQuery(s string) ([]option, error) {
	var options []option
	if s == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(s, "&") {
		name, value, found := strings.Cut(item, "=")
		if !found || name == "" || strings.ContainsAny(item, "+?") || strings.Contains(value, "=") {
			return nil, errEncode
		}
		o := option{name: decode(name), value: decode(value)}
		if slices.ContainsFunc(options, func(other option) bool { return other.name == o.name }) {
			return nil, errTwice
		}
		options = append(options, o)
	}
	return options, nil
}

// singleSegment is the decoded path, of drivers whose path is one name.
func (u uri) singleSegment() (string, error) {
	if strings.Contains(u.path, "/") {
		return "", errEncode
	}
	return decode(u.path), nil
}

// unreserved are the characters that mean themselves everywhere in a URL.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// decode undoes encode, for text that checkCharacters has seen.
func decode(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		c, _ := hex.DecodeString(s[i+1 : i+3])
		b.Write(c)
		i += 2
	}
	return b.String()
}

// encode percent-encodes every byte that is not unreserved. More than any client needs, and none misreads it.
func encode(s string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s) {
		if unreserved(c) {
			b.WriteByte(c)
		} else {
			b.WriteString(string([]byte{'%', digits[c>>4], digits[c&15]}))
		}
	}
	return b.String()
}
