// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import "strings"

// identifier quotes a name for SQL. PostgreSQL has no text with NUL in it.
func identifier(name string) string {
	return `"` + strings.ReplaceAll(text(name), `"`, `""`) + `"`
}

// literal quotes a value for SQL, in a session with standard_conforming_strings, as all of this package are.
func literal(value string) string {
	return "'" + strings.ReplaceAll(text(value), "'", "''") + "'"
}

func text(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
}
