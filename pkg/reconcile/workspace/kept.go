// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Kept is what a claim that has no login of its own yet keeps of the datastore's own credentials, because the workspace was handed them
// before the datastore got the roles PerClaim: make before break. had is what we wrote into the workspace's credentials Secret. Nil: nothing,
// for the workspace has none of them. A claim never gets what the workspace does not have.
//
// A new password of the same user is passed on. Of another user, who may be there because that one can make logins, nothing is: what the
// workspace has stays as it is, unless it is a login of its own (isLogin) or was granted for something else.
func Kept(claim *v1alpha1.ResourceClaim, shared *corev1.Secret, had map[string][]byte, isLogin func(user string) bool) *corev1.Secret {
	binding := Binding{Claim: claim, Credentials: shared}
	has := func(part string) string { return string(had[VariableOf(claim.Spec.Datastore, part)]) }
	switch user := has("USER"); {
	case user == "":
		return nil
	case user == string(binding.data()["USER"]):
		return shared
	case isLogin(user) || has("PERMISSION") != string(claim.Spec.Permission):
		return nil
	}
	kept := shared.DeepCopy()
	kept.Data = map[string][]byte{}
	for _, part := range parts {
		if value, found := had[VariableOf(claim.Spec.Datastore, part.variable)]; found {
			kept.Data[part.key] = value
		}
	}
	return kept
}
