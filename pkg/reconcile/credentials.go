// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// credentialKeys are the parts of an endpoint, as keys of a managed Secret. Source: contract §4.
var credentialKeys = []string{"uri", "host", "port", "user", "password", "database", "ca.crt"}

// CredentialParts lists the keys of credentials, which their Secret bears as an annotation: a key that somebody has deleted is no field of
// ours any more, so nothing else tells that it was there.
func CredentialParts(data map[string][]byte) string {
	return strings.Join(slices.Sorted(maps.Keys(data)), ",")
}

// CredentialsIntact says whether a Secret still has the credentials that were written into it, of which ours is what is left as our fields.
// What somebody has added that is no part of credentials does not count.
func CredentialsIntact(live *corev1.Secret, ours map[string][]byte) bool {
	for key, value := range live.Data {
		part := slices.Contains(credentialKeys, strings.TrimPrefix(key, "read-only-"))
		if written, found := ours[key]; (part || found) && !bytes.Equal(value, written) {
			return false
		}
	}
	return len(ours) > 0 && live.Annotations[v1alpha1.AnnotationParts] == CredentialParts(ours)
}
