// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// credentials is the Secret that the pods' credentials come from. It has no owner reference, because it outlives the Workspace; a
// Workspace that is created again adopts it. Source: contract §2.
func (in Input) credentials() *corev1ac.SecretApplyConfiguration {
	annotations := map[string]string{v1alpha1.AnnotationWorkspaceName: in.Workspace.Name}
	if revision := in.credentialRevision(); revision != "" {
		annotations[v1alpha1.AnnotationCredentials] = revision
	}
	return corev1ac.Secret(names.Credentials(in.Workspace.Name), in.Workspace.Namespace).
		WithLabels(in.labels()).
		WithAnnotations(annotations).
		WithType(corev1.SecretTypeOpaque).
		WithData(in.credentialData())
}

// retain adds the write that freezes the Secret.
func (in Input) retain(p *Plan) {
	if write := Retain(in.Workspace.Name, in.Children.Credentials); write != nil {
		p.Apply = append(p.Apply, *write)
	}
}

// Retain freezes the credentials Secret as it is and marks it, so that a person can tell that its Workspace is gone. Nil: there is none,
// or it is marked already.
func Retain(workspace string, child Secret) *reconcile.Write {
	if !child.Exists() || !ownsCredentials(workspace, child.Live) || child.Live.Labels[v1alpha1.LabelRetained] != "" {
		return nil
	}
	frozen, metadata := *child.Ours, *child.Ours.ObjectMetaApplyConfiguration
	metadata.Labels = labels(workspace)
	metadata.Labels[v1alpha1.LabelRetained] = "true"
	frozen.ObjectMetaApplyConfiguration = &metadata
	write := child.Write(&frozen)
	return &write
}
