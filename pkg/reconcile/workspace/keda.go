// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// kedaScaled says whether the KEDA HTTP add-on scales the workspace. The replica count is then its own, as it is an autoscaler's.
func (in Input) kedaScaled() bool {
	return in.Settings.ScaleToZero == ModeKEDA && in.Settings.KEDAInstalled && in.Class.Spec.Scaling.ScaleToZero
}

// kedaSleeps says whether KEDA has put the workspace to sleep.
func (in Input) kedaSleeps() bool {
	d := in.Children.Deployment
	return in.kedaScaled() && d.Exists() && ptr.Deref(d.Live.Spec.Replicas, 1) == 0
}

// scaleWithKEDA leaves the workspace to KEDA, or takes it back.
func (in Input) scaleWithKEDA(p *Plan) {
	if !in.kedaScaled() {
		remove(p, in.Workspace, keda.Kind, in.Children.HTTPScaledObject)
		return
	}
	if until, err := in.keepAwakeUntil(); err == nil && until.After(in.Now) {
		p.again(until.Sub(in.Now))
	}
	apply(p, in.Now, in.Children.HTTPScaledObject, in.httpScaledObject())
}

// httpScaledObject leads requests for the hosts of the workspace, and for its Service, through KEDA's interceptor. KEDA brings an HPA of its
// own, which begins at one replica whatever the class's minimum.
func (in Input) httpScaledObject() *keda.HTTPScaledObject {
	name := names.Deployment(in.Workspace.Name)
	service := name + "." + in.Workspace.Namespace
	bounds := keda.Replicas{Max: max(1, in.Class.Spec.Scaling.MinReplicas)}
	if in.hasFeature(v1alpha1.FeatureAutoScaling) {
		bounds.Max = in.maximum()
	}
	if until, err := in.keepAwakeUntil(); err != nil || until.After(in.Now) {
		bounds.Min = 1
	}
	o := keda.New(name, in.Workspace.Namespace)
	o.WithLabels(in.labels()).WithOwnerReferences(in.owner())
	o.Spec = &keda.Spec{
		Hosts:           append(in.acceptedHosts(), name, service, service+".svc", service+".svc.cluster.local"),
		ScaleTargetRef:  keda.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name, Service: name, Port: 80},
		Replicas:        bounds,
		ScaledownPeriod: int32(in.window() / time.Second),
	}
	return o
}

// kedaActive says whether the KEDA HTTP add-on scales the workspace.
func (in Input) kedaActive() *verdict {
	if !in.Settings.KEDAInstalled {
		return &verdict{
			metav1.ConditionFalse, v1alpha1.ReasonKEDANotInstalled,
			"the workspace stays awake: the operator runs with --scale-to-zero=keda-http, and had found no " + keda.Resource.GroupResource().String() +
				" when it started. Install the KEDA HTTP add-on and restart the operator", false,
		}
	}
	if _, err := in.keepAwakeUntil(); err != nil {
		return &verdict{metav1.ConditionFalse, v1alpha1.ReasonInvalidAnnotation, err.Error(), false}
	}
	return &verdict{metav1.ConditionTrue, v1alpha1.ReasonScaledByKEDA, "the KEDA HTTP add-on decides when the workspace sleeps", false}
}
