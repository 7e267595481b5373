// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The versions of the signed message.
const (
	// GrantVersion1 binds a grant to names only. It is what existing tools sign.
	GrantVersion1 int32 = 1
	// GrantVersion2 binds a grant to one cluster and namespace as well, and may end it. It cannot be replayed elsewhere.
	GrantVersion2 int32 = 2
)

// grantPrefix starts the message of version 2, so that it is no other message that the same key ever signs.
const grantPrefix = "formspec-grant/2"

// separator of the fields of a message. A field that contains it is refused: it could pass for two fields.
const separator = "|"

// grantError is why a grant is no good: a condition reason, and what is wrong and what to change.
//
// +k8s:openapi-gen=false
type grantError struct{ reason, message string }

func (e *grantError) Error() string { return e.message }

func refuse(reason, format string, args ...any) error {
	return &grantError{reason: reason, message: fmt.Sprintf(format, args...)}
}

// GrantReason is the condition reason of an error that a function of this file returned. Empty: it is none of theirs.
func GrantReason(err error) string {
	if e, ok := errors.AsType[*grantError](err); ok {
		return e.reason
	}
	return ""
}

// EffectiveGrantVersion is the version of the message that a claim's owner signed: 1 if none is stated.
func EffectiveGrantVersion(claim *ResourceClaim) int32 {
	return cmp.Or(claim.Spec.GrantVersion, GrantVersion1)
}

// GrantMessage is the exact bytes that the owner signs, every field as it is written, on the cluster of that name (the operator's
// --cluster-name; version 1 does not need it). The error has a GrantReason. Source: contract §4.
func GrantMessage(claim *ResourceClaim, cluster string) ([]byte, error) {
	type field struct{ name, value string }
	spec := claim.Spec
	names := []field{{"spec.datastore", spec.Datastore}, {"spec.workspace", spec.Workspace}}
	grant := []field{{"spec.permission", string(spec.Permission)}, {"spec.grantedBy", spec.GrantedBy}, {"spec.grantedAt", spec.GrantedAt}}
	var fields []field
	switch EffectiveGrantVersion(claim) {
	case GrantVersion1:
		if spec.ExpiresAt != "" {
			return nil, refuse(ReasonInvalidSignature,
				"spec.expiresAt is set, which the signature of a version 1 grant does not cover: anyone could change it. Sign the claim as version 2 (spec.grantVersion: 2), or remove spec.expiresAt")
		}
		fields = slices.Concat(names, grant)
	case GrantVersion2:
		if cluster == "" {
			return nil, refuse(ReasonGrantVersionRefused,
				"a version 2 grant is for one cluster, and the name of this one is not known. Start the operator with --cluster-name, or sign the claim as version 1")
		}
		if claim.Namespace == "" {
			return nil, refuse(ReasonInvalidSpec, "a version 2 grant is for one namespace, and metadata.namespace is empty. Set it")
		}
		fields = slices.Concat([]field{{"the prefix", grantPrefix}, {"the cluster name", cluster}, {"metadata.namespace", claim.Namespace}},
			names, grant, []field{{"spec.expiresAt", spec.ExpiresAt}})
	default:
		return nil, refuse(ReasonGrantVersionRefused, "spec.grantVersion is %d, which is not known here. Sign the claim as version 1 or 2", spec.GrantVersion)
	}
	values := make([]string, 0, len(fields))
	for _, f := range fields {
		if strings.Contains(f.value, separator) {
			return nil, refuse(ReasonInvalidSignature, "%s is %q. It must not contain %q, which separates the signed fields. Change it and sign again",
				f.name, f.value, separator)
		}
		values = append(values, f.value)
	}
	return []byte(strings.Join(values, separator)), nil
}

// ValidateGrant finds a signed field that means nothing, whoever signed it. The error has a GrantReason.
func ValidateGrant(claim *ResourceClaim) error {
	switch spec := claim.Spec; {
	case spec.Datastore == "":
		return refuse(ReasonInvalidSpec, "spec.datastore is empty. Name the Datastore, and sign again")
	case spec.Workspace == "":
		return refuse(ReasonInvalidSpec, "spec.workspace is empty. Name the Workspace, and sign again")
	case spec.Permission != PermissionReadOnly && spec.Permission != PermissionReadWrite:
		return refuse(ReasonInvalidSpec, "spec.permission is %q. Grant %s or %s, and sign again", spec.Permission, PermissionReadOnly, PermissionReadWrite)
	}
	_, _, err := GrantValidity(claim)
	return err
}

// GrantValidity is when the grant was given and when it ends. An end of zero: never. The error has a GrantReason.
func GrantValidity(claim *ResourceClaim) (grantedAt, expiresAt time.Time, err error) {
	if grantedAt, err = parseTime("spec.grantedAt", claim.Spec.GrantedAt); err != nil || claim.Spec.ExpiresAt == "" {
		return grantedAt, expiresAt, err
	}
	expiresAt, err = parseTime("spec.expiresAt", claim.Spec.ExpiresAt)
	return grantedAt, expiresAt, err
}

// parseTime is stricter than time.Parse, which takes an hour of one digit and a decimal comma.
func parseTime(field, text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || text[len("2006-01-02T15")] != ':' || strings.Contains(text, ",") {
		return time.Time{}, refuse(ReasonInvalidSpec, "%s is %q, which is not a time in RFC 3339 with a zone, such as 2026-07-10T10:00:00Z. Change it and sign again", field, text)
	}
	return t, nil
}

// SignGrant signs a claim for the cluster of that name, and refuses one that no operator would accept. The signature is in hex, as
// spec.signature takes it.
func SignGrant(claim *ResourceClaim, cluster string, key ed25519.PrivateKey) (string, error) {
	if err := ValidateGrant(claim); err != nil {
		return "", err
	}
	message, err := GrantMessage(claim, cluster)
	if err != nil {
		return "", err
	}
	if len(key) != ed25519.PrivateKeySize {
		return "", fmt.Errorf("an ed25519 private key has %d bytes, this one has %d", ed25519.PrivateKeySize, len(key))
	}
	return hex.EncodeToString(ed25519.Sign(key, message)), nil
}

// ParseGrantSignature reads a signature in hex. White space around it does not matter. The error has a GrantReason.
func ParseGrantSignature(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, refuse(ReasonMissingSignature, "spec.signature is empty. The owner of the datastore signs the claim: formspec-operator grant sign")
	}
	signature, err := hex.DecodeString(text)
	if err != nil || len(signature) != ed25519.SignatureSize {
		return nil, refuse(ReasonInvalidSignature, "spec.signature is not an ed25519 signature, which is %d hex digits. The owner of the datastore signs the claim: formspec-operator grant sign",
			2*ed25519.SignatureSize)
	}
	return signature, nil
}

// VerifyGrant says whether one of the keys signed exactly this claim for the cluster of that name. The error has a GrantReason.
func VerifyGrant(claim *ResourceClaim, cluster string, keys ...ed25519.PublicKey) error {
	signature, err := ParseGrantSignature(claim.Spec.Signature)
	if err != nil {
		return err
	}
	message, err := GrantMessage(claim, cluster)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return refuse(ReasonMissingOwnerKey, "there is no public key to verify the signature with")
	}
	for _, key := range keys {
		if unsafeKey(key) == "" && ed25519.Verify(key, message, signature) {
			return nil
		}
	}
	return refuse(ReasonSignatureMismatch, "none of the owner's keys (%d known) made the signature over exactly %q. Sign the claim again after each change, with a key that is published", len(keys), message)
}
