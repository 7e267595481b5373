// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"maps"
	"slices"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// withdraw takes back the credentials that no claim allows any more where nothing else is written, and returns the Deployment without them. What
// runs keeps running as it is, but a claim that is gone, refused or expired must not wait until somebody has corrected the Workspace.
func (in Input) withdraw(p *Plan, deployment *appsv1ac.DeploymentApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	secret, allowed := in.Children.Credentials, in.credentialData()
	stale := func(key string) bool {
		_, found := allowed[key]
		return !found
	}
	if secret.Exists() && Owns(in.Workspace, secret.Live) && secret.Ours != nil {
		config := *secret.Ours
		config.Data = maps.Clone(config.Data)
		maps.DeleteFunc(config.Data, func(key string, _ []byte) bool { return stale(key) })
		if len(config.Data) < len(secret.Ours.Data) {
			apply(p, in.Now, secret, &config)
		}
	}
	return in.withoutVariables(deployment, stale)
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
