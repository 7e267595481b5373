// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// minimum is how many replicas an awake workspace runs at least. KEDA's own autoscaler begins at one.
func (in Input) minimum() int32 {
	if in.kedaScaled() {
		return 1
	}
	return max(1, in.Class.Spec.Scaling.MinReplicas)
}

// maximum bounds the autoscaler. Source: contract §2.
func (in Input) maximum() int32 {
	if stated := in.Class.Spec.Scaling.MaxReplicas; stated != nil {
		return max(*stated, in.minimum())
	}
	return max(4, 5*in.minimum())
}

func (in Input) autoscaled() bool {
	return in.hasFeature(v1alpha1.FeatureAutoScaling) && !in.kedaScaled()
}

func (in Input) hasFeature(feature string) bool {
	return slices.Contains(in.Class.Spec.Features, feature)
}

// replicas is what to apply as spec.replicas of the Deployment. Nil leaves the field to the autoscaler.
//
// An apply that stops mentioning a field which only we own removes it, and the API server then defaults it to 1. So the live count is
// repeated for as long as the field is ours: it is no longer once an autoscaler has written another count.
func (in Input) replicas() *int32 {
	deployment := in.Children.Deployment
	switch {
	case in.asleep():
		return ptr.To[int32](0)
	case deployment.Exists() && in.kedaScaled():
		if !ownsReplicas(deployment) {
			return nil
		}
		return deployment.Live.Spec.Replicas
	case !deployment.Exists() || ptr.Deref(deployment.Live.Spec.Replicas, 1) == 0:
		return new(in.minimum()) // the start, or a wake: an autoscaler does nothing at zero
	case in.autoscaled() && !ownsReplicas(deployment):
		return nil
	case in.autoscaled(), in.Children.Autoscaler.Exists():
		return deployment.Live.Spec.Replicas // a hand-over, in either direction
	default:
		return new(in.minimum())
	}
}

func ownsReplicas(d Deployment) bool {
	return d.Ours != nil && d.Ours.Spec != nil && d.Ours.Spec.Replicas != nil
}
