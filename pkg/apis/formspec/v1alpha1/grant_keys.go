// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// OwnerKeysConfigMap is the ConfigMap in the operator's namespace that holds each owner's public keys under the owner's name.
const OwnerKeysConfigMap = "formspec-owner-keys"

// ParsePublicKey reads an ed25519 public key in hex. White space around it does not matter. It refuses a key under which anyone could make
// a signature. The error does not quote the text, which may be a private key by mistake.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "-----BEGIN") {
		return nil, errors.New(`is PEM. Publish the key in hex, as "formspec-operator grant keygen" prints it`)
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("is not %d hex digits", 2*ed25519.PublicKeySize)
	}
	if why := unsafeKey(key); why != "" {
		return nil, errors.New(why)
	}
	if !onCurve(key) {
		return nil, errors.New("is no point of the curve. Is it mistyped, or the private key?")
	}
	return key, nil
}

// ParseOwnerKeys reads the keys of one owner: one a line, empty lines and what follows a # are passed over. A bad line does not take the
// good ones away: both results may be set. The error names the line.
func ParseOwnerKeys(entry string) ([]ed25519.PublicKey, error) {
	var (
		keys []ed25519.PublicKey
		bad  []string
	)
	number := 0
	for line := range strings.Lines(entry) {
		number++
		text, _, _ := strings.Cut(line, "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		key, err := ParsePublicKey(text)
		if err != nil {
			bad = append(bad, fmt.Sprintf("line %d %v", number, err))
			continue
		}
		keys = append(keys, key)
	}
	switch len(bad) {
	case 0:
		return keys, nil
	case 1:
		return keys, errors.New(bad[0])
	default:
		return keys, fmt.Errorf("%s, and %d more of the lines are bad", bad[0], len(bad)-1)
	}
}

// FormatPublicKey is the key as ParsePublicKey reads it.
func FormatPublicKey(key ed25519.PublicKey) string { return hex.EncodeToString(key) }

// unsafeKey says why nothing may be verified with the key: it has no canonical encoding, or it is one of the points whose order divides 8,
// for which anyone can make signatures over anything. Empty: it may.
//
// A point is 255 bits of its y and the sign of its x, least significant byte first. The points of low order have five y: 0, 1, -1, and two
// for the order of 8. An encoding is not canonical if y is not below the prime, or if x is 0 and has a sign, which is only so for y = ±1.
func unsafeKey(key ed25519.PublicKey) string {
	if len(key) != ed25519.PublicKeySize {
		return fmt.Sprintf("does not have %d bytes", ed25519.PublicKeySize)
	}
	y := withoutSign(key)
	// Whatever is not below the prime 2²⁵⁵ - 19.
	if y[0] >= 0xed && y[31] == 0x7f && !slices.ContainsFunc(y[1:31], func(b byte) bool { return b != 0xff }) {
		return "is not in its canonical encoding"
	}
	for _, low := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	} {
		if hex.EncodeToString(y) == low {
			return "is a point of low order, under which anyone can sign anything"
		}
	}
	return ""
}

// onCurve says whether the y of a key has an x. On the curve, x² = 121666(y²-1) / (121666 - 121665y²), and a fraction is a square exactly
// if the product of its parts is.
func onCurve(key ed25519.PublicKey) bool {
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	littleEndian := withoutSign(key)
	slices.Reverse(littleEndian)
	y := new(big.Int).SetBytes(littleEndian)
	ySquared := y.Mul(y, y)
	above := new(big.Int).Sub(ySquared, big.NewInt(1))
	above.Mul(above, big.NewInt(121666))
	below := new(big.Int).Mul(ySquared, big.NewInt(121665))
	below.Sub(big.NewInt(121666), below)
	return big.Jacobi(above.Mul(above, below), prime) >= 0
}

// withoutSign is a copy of the key without the bit of the sign.
func withoutSign(key ed25519.PublicKey) []byte {
	y := bytes.Clone(key)
	y[31] &= 0x7f
	return y
}
