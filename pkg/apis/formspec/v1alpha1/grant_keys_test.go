// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

func TestOwnerKeysAreOneALine(t *testing.T) {
	other := v1alpha1.FormatPublicKey(ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey))
	for name, row := range map[string]struct {
		entry string
		keys  []string
		says  string // a part of the error; empty: none
	}{
		"nothing":                          {"", nil, ""},
		"one key":                          {publicKey, []string{publicKey}, ""},
		"a newline at the end":             {publicKey + "\n", []string{publicKey}, ""},
		"two keys":                         {publicKey + "\n" + other, []string{publicKey, other}, ""},
		"the newlines of Windows":          {publicKey + "\r\n" + other + "\r\n", []string{publicKey, other}, ""},
		"upper case":                       {strings.ToUpper(publicKey), []string{publicKey}, ""},
		"comments":                         {"# 2026\n" + publicKey + " # laptop\n\n  # " + other, []string{publicKey}, ""},
		"only comments: every key revoked": {"# " + publicKey, nil, ""},
		"a bad line among good ones":       {publicKey + "\n\nnonsense\n" + other, []string{publicKey, other}, "line 3 is not 64 hex digits"},
		"two keys on one line":             {publicKey + " " + other, nil, "line 1 is not 64 hex digits"},
		"several bad lines":                {"x\ny\nz", nil, "line 1 is not 64 hex digits, and 2 more"},
		"a key in PEM":                     {"-----BEGIN PUBLIC KEY-----\nMCo=\n-----END PUBLIC KEY-----\n", nil, "line 1 is PEM"},
		"all zero":                         {strings.Repeat("0", 64), nil, "low order"},
		"a private key":                    {seed, nil, "the private key?"},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := v1alpha1.ParseOwnerKeys(row.entry)
			var got []string
			for _, key := range keys {
				got = append(got, v1alpha1.FormatPublicKey(key))
			}
			if !slices.Equal(got, row.keys) {
				t.Errorf("keys %v, want %v", got, row.keys)
			}
			switch {
			case (err != nil) != (row.says != ""), err != nil && !strings.Contains(err.Error(), row.says):
				t.Errorf("error %v, want one with %q", err, row.says)
			case err != nil && strings.Contains(err.Error(), seed):
				t.Errorf("error %v quotes a private key", err)
			}
		})
	}
}

func TestKeysThatWereGeneratedAreAccepted(t *testing.T) {
	for range 200 {
		public, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v1alpha1.ParsePublicKey(v1alpha1.FormatPublicKey(public)); err != nil {
			t.Fatalf("%x: %v", public, err)
		}
	}
}

func TestEveryEncodingOfAPointOfLowOrderIsRefused(t *testing.T) {
	c := newCurve()
	torsion := c.torsion(t)
	encodings := 0
	for _, p := range torsion {
		for _, y := range []*big.Int{p.y, new(big.Int).Add(p.y, c.prime)} { // the second is not canonical
			if y.BitLen() > 255 {
				continue
			}
			for _, sign := range []byte{0, 0x80} {
				key := y.FillBytes(make([]byte, 32))
				slices.Reverse(key)
				key[31] |= sign
				encodings++
				if _, err := v1alpha1.ParsePublicKey(hex.EncodeToString(key)); err == nil {
					t.Errorf("%x is accepted, want it refused", key)
				}
				if err := v1alpha1.VerifyGrant(version1(), clusterName, key); reasonOf(err) != v1alpha1.ReasonSignatureMismatch {
					t.Errorf("%x: %v, want SignatureMismatch", key, err)
				}
			}
		}
	}
	if len(torsion) != 8 || encodings < 14 {
		t.Errorf("%d points in %d encodings were tried, want 8 in at least 14", len(torsion), encodings)
	}
}

// Why the check is there: under the neutral element, the signature of all zero but a one verifies for every message in the library.
func TestAKeyOfLowOrderWouldVerifyAnything(t *testing.T) {
	key := append([]byte{1}, make([]byte, 31)...)
	forged := append(slices.Clone(key), make([]byte, 32)...)
	if !ed25519.Verify(key, []byte("anything"), forged) {
		t.Error("the library refuses it by itself now; the check may go")
	}
	if err := v1alpha1.VerifyGrant(signed(hex.EncodeToString(forged)), clusterName, key); err == nil {
		t.Error("the forged grant verifies")
	}
}

func TestEncodingsThatAreNotCanonicalAreRefused(t *testing.T) {
	c := newCurve()
	for n := range int64(19) { // p to 2^255 - 1
		y := new(big.Int).Add(c.prime, big.NewInt(n))
		key := y.FillBytes(make([]byte, 32))
		slices.Reverse(key)
		if _, err := v1alpha1.ParsePublicKey(hex.EncodeToString(key)); err == nil {
			t.Errorf("%x is accepted, want it refused", key)
		}
	}
}

func TestThePointsOfTheCurveAreThoseOfItsEquation(t *testing.T) {
	c := newCurve()
	for n := int64(2); n < 200; n++ {
		_, on := c.x(big.NewInt(n))
		key := big.NewInt(n).FillBytes(make([]byte, 32))
		slices.Reverse(key)
		if _, err := v1alpha1.ParsePublicKey(hex.EncodeToString(key)); (err == nil) != on {
			t.Errorf("y = %d: %v, want it accepted: %v", n, err, on)
		}
	}
}

// curve is edwards25519 by the book, slow and without any constant of the code under test: -x² + y² = 1 + d·x²·y².
type curve struct{ prime, d *big.Int }

type point struct{ x, y *big.Int }

func newCurve() curve {
	prime := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	c := curve{prime: prime}
	c.d = c.div(big.NewInt(-121665), big.NewInt(121666))
	return c
}

func (c curve) mod(n *big.Int) *big.Int    { return n.Mod(n, c.prime) }
func (c curve) mul(a, b *big.Int) *big.Int { return c.mod(new(big.Int).Mul(a, b)) }
func (c curve) div(a, b *big.Int) *big.Int {
	return c.mul(a, new(big.Int).ModInverse(c.mod(new(big.Int).Set(b)), c.prime))
}
func (c curve) plus(a, b *big.Int) *big.Int  { return c.mod(new(big.Int).Add(a, b)) }
func (c curve) minus(a, b *big.Int) *big.Int { return c.mod(new(big.Int).Sub(a, b)) }

func (c curve) x(y *big.Int) (*big.Int, bool) {
	one, ySquared := big.NewInt(1), c.mul(y, y)
	x := new(big.Int).ModSqrt(c.div(c.minus(ySquared, one), c.plus(c.mul(c.d, ySquared), one)), c.prime)
	return x, x != nil
}

func (c curve) add(p, q point) point {
	one := big.NewInt(1)
	t := c.mul(c.d, c.mul(c.mul(p.x, q.x), c.mul(p.y, q.y)))
	return point{
		x: c.div(c.plus(c.mul(p.x, q.y), c.mul(p.y, q.x)), c.plus(one, t)),
		y: c.div(c.plus(c.mul(p.y, q.y), c.mul(p.x, q.x)), c.minus(one, t)),
	}
}

func (c curve) times(n *big.Int, p point) point {
	sum := point{big.NewInt(0), big.NewInt(1)}
	for i := n.BitLen() - 1; i >= 0; i-- {
		sum = c.add(sum, sum)
		if n.Bit(i) == 1 {
			sum = c.add(sum, p)
		}
	}
	return sum
}

// torsion finds the points whose order divides 8: the order of the prime subgroup times any point is one.
func (c curve) torsion(t *testing.T) []point {
	t.Helper()
	order, _ := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
	order.Add(order, new(big.Int).Lsh(big.NewInt(1), 252))
	var points []point
	for n := int64(2); len(points) < 8 && n < 200; n++ {
		x, on := c.x(big.NewInt(n))
		if !on {
			continue
		}
		p := c.times(order, point{x, big.NewInt(n)})
		for q := p; ; q = c.add(q, p) {
			if !slices.ContainsFunc(points, func(o point) bool { return o.x.Cmp(q.x) == 0 && o.y.Cmp(q.y) == 0 }) {
				points = append(points, q)
			}
			if q.x.Sign() == 0 && q.y.Cmp(big.NewInt(1)) == 0 {
				break
			}
		}
	}
	return points
}
