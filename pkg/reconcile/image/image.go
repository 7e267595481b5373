// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image reads image references.
package image

import "strings"

// Pinned says whether ref names one fixed version: a digest, or a tag other than "latest". A registry's port is no tag.
func Pinned(ref string) bool {
	if name, digest, found := strings.Cut(ref, "@"); found {
		algorithm, hash, ok := strings.Cut(digest, ":")
		return ok && name != "" && algorithm != "" && hash != ""
	}
	name, tag, found := strings.Cut(ref[strings.LastIndex(ref, "/")+1:], ":")
	return found && name != "" && tag != "" && tag != "latest"
}
