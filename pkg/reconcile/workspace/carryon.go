// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"maps"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// carryOn is what goes on under an obstacle. What runs keeps running as it is and nothing new starts, but credentials are taken back, requests
// find their way, and one wakes what sleeps.
func (in Input) carryOn(p *Plan) {
	ours := in.ownDeployment()
	in.narrowSecret(p)
	config := in.narrowed(ours)
	decided, after := in.decide()
	p.again(after)
	if in.reached() {
		in.route(p, decided.asleep)
	}
	if ours != nil && in.rested().asleep && !decided.asleep {
		config = in.awakened(config, decided)
	}
	if config != ours {
		apply(p, in.Now, in.Children.Deployment, config)
	}
}

// reached says whether requests pass the activator, or are on their way back from there, over objects that are all ours.
func (in Input) reached() bool {
	c := in.Children
	return mine(in.Workspace, c.Service) && (!c.PodsService.Exists() || mine(in.Workspace, c.PodsService)) &&
		(in.hasSlice() || !c.Slice.Exists() && in.activated())
}

// awakened is the Deployment as it was before it fell asleep. The class counts only if it is still the one by which it was made.
func (in Input) awakened(ours *appsv1ac.DeploymentApplyConfiguration, decided rest) *appsv1ac.DeploymentApplyConfiguration {
	deployment, spec, replicas := *ours, ptr.Deref(ours.Spec, appsv1ac.DeploymentSpecApplyConfiguration{}), int32(1)
	if in.Class != nil && in.Class.Name == ours.Annotations[v1alpha1.AnnotationClusterClass] {
		replicas = in.minimum()
	}
	metadata := *ours.ObjectMetaApplyConfiguration
	metadata.Annotations = maps.Clone(metadata.Annotations)
	if delete(metadata.Annotations, v1alpha1.AnnotationSleep); decided.woken {
		metadata.Annotations[v1alpha1.AnnotationSleep] = decided.annotation()
	}
	spec.Replicas = &replicas
	deployment.Spec, deployment.ObjectMetaApplyConfiguration = &spec, &metadata
	return &deployment
}
