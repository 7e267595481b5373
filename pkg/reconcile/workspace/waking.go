// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// sleeping is the verdict on a workspace that sleeps. It is Ready, because its first request wakes it, unless it failed to wake. Whether it did
// is the rollout's to say: it may have been not Ready for other reasons, such as an obstacle that is gone.
func (in Input) sleeping() verdict {
	was := in.wasReady()
	if was.Status == metav1.ConditionFalse && was.Reason == v1alpha1.ReasonWakeFailed {
		return verdict{was.Status, was.Reason, was.Message, false}
	}
	if in.fallsAsleep() {
		if left := in.rollout(in.Children.Deployment.Live, false); left.ready == metav1.ConditionFalse {
			return verdict{
				metav1.ConditionFalse, v1alpha1.ReasonWakeFailed,
				fmt.Sprintf("the workspace was not ready when it fell asleep: %s: %s. The next request tries again", left.reason, left.message), false,
			}
		}
	}
	return verdict{metav1.ConditionTrue, v1alpha1.ReasonAsleep, "the workspace sleeps at zero replicas; its next request wakes it", false}
}

// waking turns the verdict on a rollout that is under way into that on a wake, if it is one. A wake that takes too long has failed, and goes on.
func (in Input) waking(v verdict) verdict {
	if v.ready != metav1.ConditionUnknown {
		return v
	}
	switch was := in.wasReady(); {
	case was.Reason == v1alpha1.ReasonWaking && in.wakeLeft(was) <= 0, was.Reason == v1alpha1.ReasonWakeFailed && !in.rested().asleep:
		return verdict{
			metav1.ConditionFalse, v1alpha1.ReasonWakeFailed,
			fmt.Sprintf("the workspace was woken and is not ready after %s; it goes on trying", in.Settings.WakeDeadline), false,
		}
	case was.Reason == v1alpha1.ReasonAsleep, was.Reason == v1alpha1.ReasonWaking, was.Reason == v1alpha1.ReasonWakeFailed:
		return verdict{v.ready, v1alpha1.ReasonWaking, "the workspace wakes: " + v.message, false}
	default:
		return v
	}
}

// wakeLeft is how long a wake may still take.
func (in Input) wakeLeft(waking metav1.Condition) time.Duration {
	return in.Settings.WakeDeadline - in.Now.Sub(waking.LastTransitionTime.Time)
}

// wakeDeadline is when a wake that goes on has to be looked at again. Zero: there is none.
func (in Input) wakeDeadline(status v1alpha1.WorkspaceStatus) time.Duration {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonWaking {
		return 0
	}
	return max(in.wakeLeft(*ready), time.Second)
}

// scaleToZeroActive says whether the workspace may fall asleep, and why not. Nil: its class does not scale to zero.
func (in Input) scaleToZeroActive() *verdict {
	if in.Class == nil || !in.Class.Spec.Scaling.ScaleToZero {
		return nil
	}
	no := func(reason, message string) *verdict { return &verdict{metav1.ConditionFalse, reason, message, false} }
	switch in.Settings.ScaleToZero {
	case ModeActivator:
	case ModeKEDA:
		return in.kedaActive()
	default:
		return no(v1alpha1.ReasonScaleToZeroOff, "the workspace stays awake, because the operator runs with --scale-to-zero=off")
	}
	until, err := in.keepAwakeUntil()
	service := in.Children.Service
	switch {
	case err != nil:
		return no(v1alpha1.ReasonInvalidAnnotation, err.Error())
	case len(in.Traffic.Activators.Addresses) == 0 && in.asleep():
		return no(v1alpha1.ReasonNoActivator, fmt.Sprintf(
			"no pod of Service %q in namespace %q is ready: no request reaches the workspace or wakes it. Look at that Deployment, or set the annotation %s",
			v1alpha1.ActivatorService, v1alpha1.ActivatorNamespace, v1alpha1.AnnotationKeepAwakeUntil))
	case len(in.Traffic.Activators.Addresses) == 0:
		return no(v1alpha1.ReasonNoActivator, fmt.Sprintf(
			"the workspace stays awake and requests go to its pods directly, because no pod of Service %q in namespace %q is ready to wake it later",
			v1alpha1.ActivatorService, v1alpha1.ActivatorNamespace))
	case until.After(in.Now):
		return no(v1alpha1.ReasonKeptAwake, fmt.Sprintf("the annotation %s holds the workspace awake until %s",
			v1alpha1.AnnotationKeepAwakeUntil, until.UTC().Format(time.RFC3339)))
	case in.activated() && len(service.Live.Spec.Selector) > 0:
		return no(v1alpha1.ReasonSelectorHeld, fmt.Sprintf(
			"the workspace stays awake, because another field manager keeps a selector on Service %q and requests pass the activator by. Remove spec.selector",
			service.Live.Name))
	default:
		return &verdict{
			metav1.ConditionTrue, v1alpha1.ReasonIdleWatched,
			fmt.Sprintf("the workspace falls asleep after %s without a request", in.window()), false,
		}
	}
}
