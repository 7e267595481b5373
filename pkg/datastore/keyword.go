// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"slices"
	"strings"
)

var (
	errKeyword = invalid("the connection string is not of the form keyword=value keyword='value'; " +
		"a value with spaces needs quotes, and a quote or backslash in it a backslash before it")
	errUnterminated = invalid("the connection string has a quote that does not end")
)

const blanks = " \t\n\r\v\f"

// parseKeywords reads libpq's other form of connection string, such as "host=h user=u password='p w'", by libpq's rules.
func parseKeywords(s string) ([]option, error) {
	var options []option
	for s = strings.TrimLeft(s, blanks); s != ""; s = strings.TrimLeft(s, blanks) {
		name, rest, found := strings.Cut(s, "=")
		name = strings.TrimRight(name, blanks)
		if !found || name == "" || strings.ContainsAny(name, blanks) {
			return nil, errKeyword
		}
		var o option
		var err error
		o.name = name
		if o.value, s, err = keywordValue(strings.TrimLeft(rest, blanks)); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(options, func(other option) bool { return other.name == o.name }) {
			return nil, errTwice
		}
		options = append(options, o)
	}
	return options, nil
}

// keywordValue splits s into its first value and what follows it.
func keywordValue(s string) (value, rest string, err error) {
	quoted := strings.HasPrefix(s, "'")
	var b strings.Builder
	i := 0
	if quoted {
		i++
	}
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			if i++; i < len(s) {
				b.WriteByte(s[i])
			}
		case quoted && c == '\'':
			rest = s[i+1:]
			if rest != "" && strings.IndexByte(blanks, rest[0]) < 0 {
				// libpq reads on here, which is where a raw quote in a password would be half-parsed.
				return "", "", errKeyword
			}
			return b.String(), rest, nil
		case !quoted && strings.IndexByte(blanks, c) >= 0:
			return b.String(), s[i:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		return "", "", errUnterminated
	}
	return b.String(), "", nil
}
