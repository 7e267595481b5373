// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image judges references to container images. It is pure.
package image

import (
	"regexp"
	"strings"
)

// The grammar of tags and digests is that of the OCI distribution specification.
var (
	tagPattern    = regexp.MustCompile(`^[\w][\w.-]{0,127}$`)
	digestPattern = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)
)

// Pinned reports whether ref names one image rather than the newest: it has a digest, or a tag other than "latest".
// A reference that is malformed there is not pinned.
func Pinned(ref string) bool {
	name, digest, hasDigest := strings.Cut(ref, "@")
	last := name[strings.LastIndex(name, "/")+1:] // a colon before it belongs to the registry's port
	repository, tag, hasTag := strings.Cut(last, ":")
	switch {
	case repository == "", hasTag && !tagPattern.MatchString(tag):
		return false
	case hasDigest:
		return digestPattern.MatchString(digest)
	}
	return hasTag && tag != "latest"
}
