// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// local is the drivers without a server: sqlite, fs and memory. What they name is in the application's pod, where the
// operator cannot look.
type local struct{}

func (local) parse(text string, into *parsed) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid("the connection string has a control character")
	}
	into.text = text
	path, _, _ := strings.Cut(text, "?")
	switch into.driver {
	case v1alpha1.DriverSQLite:
		path = trimSchemes(path, "sqlite3://", "sqlite://", "file://", "sqlite3:", "sqlite:", "file:")
		if path == "" || schemeOf(path) != "" {
			return invalid("the connection string is not the path of a database file, with or without sqlite:// or file: before it")
		}
		into.database = path
	case v1alpha1.DriverFS:
		path = trimSchemes(path, "file://", "fs://")
		if !strings.HasPrefix(path, "/") {
			return invalid("the connection string is not an absolute path, with or without file:// before it")
		}
	}
	return nil
}

func (local) probe(context.Context, network, *parsed) Result {
	return Result{Reason: v1alpha1.ReasonNotProbed, Message: "the driver has no server: the connection string was checked by its form only"}
}

// trimSchemes removes the first of the prefixes that s has.
func trimSchemes(s string, prefixes ...string) string {
	for _, prefix := range prefixes {
		if rest, found := strings.CutPrefix(s, prefix); found {
			return rest
		}
	}
	return s
}
