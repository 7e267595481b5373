// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"maps"
	"slices"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// What follows takes back the credentials that no claim allows any more where nothing else is written. What runs keeps running as it is, but
// a claim that is gone, refused or expired, or that allows less than it did, must not wait until somebody has corrected the Workspace.

// remaining is what of the credentials Secret may stay as it is. The keys of a datastore that may now only be read go too: nothing new is
// put in their place, for a Secret that can be written is written as a whole. Nil: there is no Secret of ours.
func (in Input) remaining() map[string][]byte {
	secret := in.Children.Credentials
	if !mine(in.Workspace, secret) || secret.Ours == nil {
		return nil
	}
	allowed := in.credentialData()
	data := map[string][]byte{}
	maps.Copy(data, secret.Ours.Data)
	maps.DeleteFunc(data, func(key string, _ []byte) bool {
		_, found := allowed[key]
		return !found
	})
	for _, b := range in.injected() {
		was := data[VariableOf(b.Claim.Spec.Datastore, "PERMISSION")]
		if b.Claim.Spec.Permission != v1alpha1.PermissionReadOnly || string(was) == string(v1alpha1.PermissionReadOnly) {
			continue
		}
		delete(data, VariableOf(b.Claim.Spec.Datastore, "PERMISSION"))
		for _, part := range parts {
			delete(data, VariableOf(b.Claim.Spec.Datastore, part.variable))
		}
	}
	return data
}

// narrowSecret leaves in the credentials Secret what may stay there.
func (in Input) narrowSecret(p *Plan) {
	secret, data := in.Children.Credentials, in.remaining()
	if data == nil || len(data) == len(secret.Ours.Data) {
		return
	}
	config := *secret.Ours
	config.Data = data
	apply(p, in.Now, secret, &config)
}

// narrowDeployment takes the variables away that are taken back, and changes nothing else.
func (in Input) narrowDeployment(p *Plan) {
	ours := in.ownDeployment()
	if config := in.narrowed(ours); config != ours {
		apply(p, in.Now, in.Children.Deployment, config)
	}
}

// ownDeployment is what we applied of the Deployment, if it is the Workspace's own. Nil: it is not, or there is none.
func (in Input) ownDeployment() *appsv1ac.DeploymentApplyConfiguration {
	if d := in.Children.Deployment; mine(in.Workspace, d) {
		return d.Ours
	}
	return nil
}

// narrowed is the Deployment without the variables whose keys do not stay in the Secret: itself if all stay. Where there is no Secret what
// claims allow stays: no pod could start without it, but those that run need not go.
func (in Input) narrowed(ours *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	data := in.remaining()
	if data == nil {
		data = in.credentialData()
	}
	return in.withoutVariables(ours, func(key string) bool {
		_, found := data[key]
		return !found
	})
}

// withoutVariables is the Deployment without the variables that refer to those keys of the credentials Secret: itself if it has none of them.
func (in Input) withoutVariables(ours *appsv1ac.DeploymentApplyConfiguration, stale func(key string) bool) *appsv1ac.DeploymentApplyConfiguration {
	if ours == nil || ours.Spec == nil || ours.Spec.Template == nil || ours.Spec.Template.Spec == nil {
		return ours
	}
	remove := func(env corev1ac.EnvVarApplyConfiguration) bool {
		if env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil {
			return false
		}
		ref := env.ValueFrom.SecretKeyRef
		return ptr.Deref(ref.Name, "") == names.Credentials(in.Workspace.Name) && stale(ptr.Deref(ref.Key, ""))
	}
	deployment, spec, template, pod, changed := *ours, *ours.Spec, *ours.Spec.Template, *ours.Spec.Template.Spec, false
	pod.Containers = slices.Clone(pod.Containers)
	for i := range pod.Containers {
		container := &pod.Containers[i]
		changed = changed || slices.ContainsFunc(container.Env, remove)
		container.Env = slices.DeleteFunc(slices.Clone(container.Env), remove)
	}
	if !changed {
		return ours
	}
	template.Spec, spec.Template, deployment.Spec = &pod, &template, &spec
	return &deployment
}
