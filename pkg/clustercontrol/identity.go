// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// Identity is the ed25519 key that signs every request. It prints its key id only, in every format.
type Identity struct {
	private ed25519.PrivateKey
	id      string
}

const pemType = "PRIVATE KEY"

// GenerateIdentity makes a new key.
func GenerateIdentity() (*Identity, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return newIdentity(private), nil
}

// ParseIdentity reads a private key: one PEM block "PRIVATE KEY" (PKCS #8, RFC 8410), as Encode and openssl write it. The error
// quotes nothing of what it could not read.
func ParseIdentity(content []byte) (*Identity, error) {
	block, rest := pem.Decode(content)
	switch {
	case block == nil:
		return nil, errors.New("holds no PEM block: want an ed25519 private key in PKCS #8, as \"openssl genpkey -algorithm ed25519\" writes it")
	case block.Type != pemType:
		return nil, errors.New("holds a PEM block of another type: want \"PRIVATE KEY\" (PKCS #8, not encrypted)")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("holds more than one PEM block: want the private key alone")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("holds a private key that is damaged: its PEM block is no PKCS #8")
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("holds a key of another kind: want ed25519")
	}
	return newIdentity(private), nil
}

func newIdentity(private ed25519.PrivateKey) *Identity {
	i := &Identity{private: private}
	sum := sha256.Sum256(i.public())
	i.id = hex.EncodeToString(sum[:])[:16]
	return i
}

func (i *Identity) public() ed25519.PublicKey {
	return ed25519.PublicKey(i.private[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

// KeyID is the first 16 hex digits of the SHA-256 of the public key.
func (i *Identity) KeyID() string { return i.id }

// PublicKey is the public key in hex, as Cluster Control is told it.
func (i *Identity) PublicKey() string { return hex.EncodeToString(i.public()) }

// Sign returns the hex signature over body. The same body has the same signature (RFC 8032).
func (i *Identity) Sign(body []byte) string {
	return hex.EncodeToString(ed25519.Sign(i.private, body))
}

// Encode returns the private key as ParseIdentity reads it.
func (i *Identity) Encode() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(i.private)
	if err != nil {
		return nil, fmt.Errorf("encode the private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// String returns the key id.
func (i *Identity) String() string { return i.id }

// GoString returns the key id.
func (i *Identity) GoString() string { return i.id }

// Format keeps every verb from printing the key.
func (i *Identity) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(i.id)) }
