// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Mode is who lets idle workspaces of a class with scaleToZero sleep, and wakes them. Source: contract §7, --scale-to-zero.
type Mode string

// The modes. Empty means off: a class's scaleToZero then has no effect on replicas and routing.
const (
	ModeOff       Mode = "off"
	ModeActivator Mode = "activator"
	ModeKEDA      Mode = "keda-http"
)

// Traffic is what the operator has observed of a workspace's requests. Of the zero value nobody falls asleep.
type Traffic struct {
	// Lease is the resourceVersion of the workspace's activity Lease. Another one than the workspace fell asleep at is a wake. Empty: there is
	// no Lease, or it was never read.
	Lease string
	// Quiet is for how long the operator has known that there is no request: by its own monotonic clock, since the Lease last changed, and
	// since there was last a reason to doubt that it would see a change. Zero: not at all.
	Quiet time.Duration
	// Backoff is how long the next wake has to wait, because earlier ones failed. Zero: not at all.
	Backoff time.Duration
	// Activators are the activator's ready pods.
	Activators Activators
}

// minWindow is the shortest idle window. An activator renews a Lease after a quarter of the window, and the news travels.
const minWindow = 10 * time.Second

// settleDelay is how soon after it fell asleep a workspace is looked at again.
const settleDelay = time.Second

// rest is whether a workspace sleeps. The Deployment remembers it in its annotation formspec.dev/sleep, which is written together with the
// replica count: an operator that starts anew knows what the last one did, and no wake is lost in between.
type rest struct {
	asleep bool
	lease  string // while asleep: the version of the Lease that it fell asleep at
	woken  bool   // while awake: formspec.dev/idle was obeyed, and a request has woken it since
}

// The words of the annotation.
const (
	sleepAsleep = "asleep"
	sleepWoken  = "woken"
)

func (r rest) annotation() string {
	switch {
	case r.asleep:
		return strings.TrimSpace(sleepAsleep + " " + r.lease)
	case r.woken:
		return sleepWoken
	default:
		return ""
	}
}

// rested is what the last plan decided.
func (in Input) rested() rest {
	ours := in.Children.Deployment.Ours
	if ours == nil || ours.ObjectMetaApplyConfiguration == nil {
		return rest{}
	}
	return parseRest(ours.Annotations[v1alpha1.AnnotationSleep])
}

// parseRest reads what annotation writes. What it does not know is awake.
func parseRest(annotation string) rest {
	word, lease, _ := strings.Cut(annotation, " ")
	return rest{asleep: word == sleepAsleep, lease: lease, woken: word == sleepWoken}
}

// Sleeps says whether a Deployment was put to sleep by the operator.
func Sleeps(deployment *appsv1.Deployment) bool {
	return parseRest(deployment.Annotations[v1alpha1.AnnotationSleep]).asleep
}

// sleepable says whether the operator itself lets the workspace sleep and wakes it. Without a class what was decided before stands.
func (in Input) sleepable() bool {
	if in.Class == nil {
		return in.Settings.ScaleToZero == ModeActivator && in.activated()
	}
	return in.Settings.ScaleToZero == ModeActivator && in.Class.Spec.Scaling.ScaleToZero
}

// activated says whether requests were last led to the activator.
func (in Input) activated() bool {
	service := in.Children.Service.Ours
	return in.Children.Service.Exists() && service != nil && service.Spec != nil && len(service.Spec.Selector) == 0
}

// asleep says whether the workspace should be at zero replicas.
func (in Input) asleep() bool {
	decided, _ := in.decide()
	return decided.asleep
}

// fallsAsleep says whether the workspace is awake now and should not be.
func (in Input) fallsAsleep() bool {
	return in.Children.Deployment.Exists() && !in.rested().asleep && in.asleep()
}

// decide says whether the workspace sleeps, and after how long that is to be decided again. Zero: an event tells. Source: contract §6.
func (in Input) decide() (decided rest, after time.Duration) {
	if !in.sleepable() {
		return rest{}, 0
	}
	was, idle := in.rested(), in.Workspace.Annotations[v1alpha1.AnnotationIdle] == "true"
	awake := rest{woken: idle && (was.asleep || was.woken)}
	until, err := in.keepAwakeUntil()
	switch {
	case err != nil:
		return awake, 0
	case until.After(in.Now):
		return awake, until.Sub(in.Now)
	case was.asleep && (in.Traffic.Lease == "" || in.Traffic.Lease == was.lease):
		return was, 0 // whatever became of the window: only a request, or somebody who forbids it, ends the sleep
	case was.asleep && in.Traffic.Backoff > 0:
		return was, in.Traffic.Backoff
	case obstruct(in) != nil:
		return awake, 0 // what runs keeps running
	case was.asleep, !in.routed():
		return awake, in.window() // nothing else may tell that it is routed later on
	case idle && !was.woken:
		return rest{asleep: true, lease: in.Traffic.Lease}, 0
	case in.Workspace.Status.FirstReadyTime == nil:
		return awake, in.window() // our own status, with that time in it, wakes nobody
	}
	if left := in.window() - in.Traffic.Quiet; left > 0 {
		return awake, left
	}
	return rest{asleep: true, lease: in.Traffic.Lease}, 0
}

// window is how long a workspace has no request before it falls asleep.
func (in Input) window() time.Duration {
	window := in.Settings.IdleAfter
	if stated := in.Class.Spec.Scaling.IdleAfter; stated != nil {
		window = stated.Duration
	}
	return max(window, minWindow)
}

// keepAwakeUntil is the time of the annotation formspec.dev/keep-awake-until. Zero: there is none.
func (in Input) keepAwakeUntil() (time.Time, error) {
	value, stated := in.Workspace.Annotations[v1alpha1.AnnotationKeepAwakeUntil]
	if !stated {
		return time.Time{}, nil
	}
	until, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return time.Time{}, fmt.Errorf("annotation %s is %q, which is no time: write it as in 2026-07-10T10:00:00Z. Until then the workspace stays awake",
			v1alpha1.AnnotationKeepAwakeUntil, value)
	}
	return until, nil
}

// Unwatched says that what the operator knows of the workspace's requests starts now at the earliest: some of them do not pass the activator,
// or it was never ready.
func (in Input) Unwatched() bool {
	return in.Class == nil || !in.Class.Spec.Scaling.ScaleToZero || in.Workspace.Status.FirstReadyTime == nil || !in.routed()
}

// routed says whether every new request passes a ready activator, as far as the caches show. What does not run yet cannot be passed by.
func (in Input) routed() bool {
	c := in.Children
	switch {
	case len(in.Traffic.Activators.Addresses) == 0:
		return false
	case !c.Deployment.Exists() || ptr.Deref(c.Deployment.Live.Spec.Replicas, 1) == 0:
		return true
	default:
		return c.Service.Exists() && len(c.Service.Live.Spec.Selector) == 0 && len(c.Theirs) == 0 && c.Slice.Exists() && len(c.Slice.Live.Endpoints) > 0 &&
			c.PodsService.Exists()
	}
}
