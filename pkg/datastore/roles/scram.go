// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

const (
	saltBytes = 16
	// iterations are PostgreSQL's default. The passwords are random and long, so that more would only cost logins time.
	iterations = 4096
)

// verifier is what PostgreSQL stores instead of a password (RFC 5803). The password itself is never sent: a server that
// logs statements would keep it.
func verifier(password string) (string, error) {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	return verifierWith(password, salt)
}

func verifierWith(password string, salt []byte) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("derive the key: %w", err)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, encode(salt), encode(stored[:]), encode(sign(salted, "Server Key"))), nil
}

func sign(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
