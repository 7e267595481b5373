// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// A write that is refused is planned again without what depended on it, so that it holds up nothing else: least of all that credentials are
// taken back.

func (in Input) refused(kind, name string) bool {
	return slices.Contains(in.Refused, Refused{kind, name})
}

// credentialsRefused says that the credentials Secret stays as it is, but for what may be taken from it.
func (in Input) credentialsRefused() bool {
	return in.refused("Secret", names.Credentials(in.Workspace.Name))
}

// incomplete says that there is no Deployment yet and its pods would lack what they refer to: none is started.
func (in Input) incomplete() bool {
	return !in.Children.Deployment.Exists() && (in.credentialsRefused() || in.refused("ConfigMap", names.ConfigMap(in.Workspace.Name)))
}

// deploymentRefused says that the Deployment stays as it is, but for the variables that may be taken from it. Without a Secret that may be
// made new pods could not start, with or without variables; those that run need not go.
func (in Input) deploymentRefused() bool {
	return in.refused("Deployment", names.Deployment(in.Workspace.Name)) || (in.credentialsRefused() && in.remaining() == nil)
}

// referred is the credentials that the pods' variables refer to: those that the Secret holds once the plan is carried out.
func (in Input) referred() (data map[string][]byte, revision string) {
	if !in.credentialsRefused() {
		return in.credentialData(), in.credentialRevision()
	}
	data = in.remaining()
	if data != nil {
		revision = in.Children.Credentials.Live.Annotations[v1alpha1.AnnotationCredentials]
	}
	return data, revision
}

// refusal is what the status tells of a refused write. Nil: none was.
func (in Input) refusal() *reconcile.Refusal {
	secret := in.Children.Credentials
	if in.Refusal == nil || !in.credentialsRefused() || !secret.Exists() || !ptr.Deref(secret.Live.Immutable, false) {
		return in.Refusal
	}
	return &reconcile.Refusal{Reason: in.Refusal.Reason, Stalled: true, Message: fmt.Sprintf(
		"Secret %q is immutable. The pods get nothing that was withdrawn, but the Secret keeps it, and nothing new comes. Delete it, and it is made anew: kubectl delete secret %s -n %s",
		secret.Live.Name, secret.Live.Name, secret.Live.Namespace)}
}
