// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
)

// The headers that every request has (§5).
const (
	headerKeyID     = "Formspec-Key-Id"
	headerSignature = "Formspec-Signature"
)

// TrustedKey is a public key that requests may be signed with.
type TrustedKey struct {
	Public ed25519.PublicKey `json:"public_key"`
	// Cluster is the only one that the key may speak for. Empty: any.
	Cluster string `json:"cluster,omitempty"`
}

// ID is the first 16 hex digits of the key's SHA-256 (§5).
func (k TrustedKey) ID() string {
	hash := sha256.Sum256(k.Public)
	return hex.EncodeToString(hash[:8])
}

// ParseKey reads a public key in hex, as "formspec-operator identity" prints it.
func ParseKey(text string) (ed25519.PublicKey, error) {
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is not an ed25519 public key of %d hex digits", text, 2*ed25519.PublicKeySize)
	}
	return key, nil
}

func (l *ledger) trust(k TrustedKey) { l.keys[k.ID()] = k }

var (
	keyIDForm     = regexp.MustCompile(`^[0-9a-f]{16}$`)
	signatureForm = regexp.MustCompile(`^[0-9a-f]{128}$`)
)

// authenticate fills in who signed a request, or its refusal.
//
// The public key is not on the wire, so a key that is trusted on first use is pinned by its id, and its signatures cannot
// be verified.
func (l *ledger) authenticate(c *Capture, header http.Header, firstUse bool) {
	c.KeyID, c.Signature = header.Get(headerKeyID), header.Get(headerSignature)
	key, known := l.keys[c.KeyID]
	signature, err := hex.DecodeString(c.Signature)
	refuse := func(kind Kind, format string, args ...any) {
		c.Refusal = &Refusal{http.StatusUnauthorized, kind, fmt.Sprintf(format, args...)}
	}
	switch {
	case len(header.Values(headerKeyID)) != 1 || !keyIDForm.MatchString(c.KeyID):
		refuse(BadSignature, "%s must be there once, in 16 hex digits in lower case", headerKeyID)
	case len(header.Values(headerSignature)) != 1 || !signatureForm.MatchString(c.Signature) || err != nil:
		refuse(BadSignature, "%s must be there once, in 128 hex digits in lower case", headerSignature)
	case known && !ed25519.Verify(key.Public, c.Body, signature):
		refuse(BadSignature, "the signature is not one of this body by the key %s", c.KeyID)
	case known:
		c.Verified, c.Bound = true, key.Cluster
	case !firstUse:
		refuse(UnknownKey, "the key %s is not trusted", c.KeyID)
	}
}

// checkSigner refuses a key that may not speak for a cluster, and pins one that is trusted on first use. Once a verified
// key has spoken for a cluster, no other is believed.
func (l *ledger) checkSigner(c Capture, cluster string) error {
	switch pinned := l.pins[cluster]; {
	case c.Verified && c.Bound != "" && c.Bound != cluster:
		return fmt.Errorf("the key %s is trusted for the cluster %q, not for %q", c.KeyID, c.Bound, cluster)
	case c.Verified:
		l.verified[cluster] = true
	case l.verified[cluster] || pinned != "" && pinned != c.KeyID:
		return fmt.Errorf("another key than %s is trusted for the cluster %q", c.KeyID, cluster)
	default:
		l.pins[cluster] = c.KeyID
	}
	l.clusters[c.KeyID] = cluster
	return nil
}
