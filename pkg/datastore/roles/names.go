// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
)

const (
	// maxName of PostgreSQL, in bytes. It cuts longer names off, silently.
	maxName = 63
	// hashBytes are 80 bits: nobody finds a name whose hash is that of somebody else's.
	hashBytes = 10

	ownerPrefix = "ws_"
	loginPrefix = "claim_"
)

var hashEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Owner is the name of the workspace's schema and of the role that owns it and everything in it: "ws_", what can be shown
// of the workspace's name, and a hash. Roles are of a whole server, so the hash keeps apart what may share one: clusters
// (by their names), namespaces and datastores. Two datastores of one server are apart even in one database, so that a
// claim on the one is none on the other.
func (l Login) Owner() string {
	return name(ownerPrefix, l.Workspace, l.Cluster, l.Namespace, l.Datastore, l.Workspace)
}

// Name is the name of the login role. A claim that was deleted and made again has another, and so has one that names
// another workspace or datastore than before: the login that it had must be dropped under the names of then.
func (l Login) Name() string {
	return name(loginPrefix, l.Claim, l.Cluster, l.Namespace, l.Datastore, l.Workspace, l.Claim, string(l.UID))
}

// IsLogin says whether a user has the name of a claim's login, whichever claim that is or was.
func IsLogin(user string) bool { return strings.HasPrefix(user, loginPrefix) }

// name needs no quotes in SQL, whatever the names are that it is made from. The identity is hashed as a list, in which no
// part can be mistaken for two.
func name(prefix, visible string, identity ...string) string {
	h := sha256.New()
	h.Write([]byte(prefix))
	for _, part := range identity {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	suffix := "_" + hashEncoding.EncodeToString(h.Sum(nil)[:hashBytes])
	short := strings.Map(plain, visible)
	short = short[:min(len(short), maxName-len(prefix)-len(suffix))]
	return prefix + strings.TrimRight(short, "_") + suffix
}

// plain keeps what an identifier may have without quotes, in lower case.
func plain(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return r
	case 'A' <= r && r <= 'Z':
		return r - 'A' + 'a'
	}
	return '_'
}
