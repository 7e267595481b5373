// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// economy is a workspace that scales to zero and has been ready for a while; all its requests pass the activator.
var economy = both(scaleToZero, settled, ready(1), settled)

// sleeps is an economy workspace that has fallen asleep.
var sleeps = both(economy, quietFor(5*time.Minute), settled, rollout(0, 0, 0), settled, quietFor(0))

func idleAfter(d time.Duration) option {
	return class(func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.IdleAfter = &metav1.Duration{Duration: d} })
}

func keepAwake(until string) option { return annotated(v1alpha1.AnnotationKeepAwakeUntil, until) }

func mode(m workspace.Mode) option {
	return settings(func(s *workspace.Settings) { s.ScaleToZero = m })
}

// restarted is what a new operator knows: nothing but what is in the caches.
func restarted(in *workspace.Input) { in.Traffic.Quiet, in.Traffic.Backoff = 0, 0 }

func TestSleep(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    string // the replicas that the Deployment ends up with, and when to look again
	}{
		// Falling asleep.
		"just asked for":              {[]option{economy}, "1, again in 5m0s"},
		"a part of the window":        {[]option{economy, quietFor(3 * time.Minute)}, "1, again in 2m0s"},
		"the whole window":            {[]option{economy, quietFor(5 * time.Minute)}, "0"},
		"the window of the class":     {[]option{economy, idleAfter(time.Minute), quietFor(time.Minute)}, "0"},
		"the window is too short":     {[]option{economy, idleAfter(time.Millisecond), quietFor(time.Second)}, "1, again in 9s"},
		"the class does not allow it": {[]option{economy, noScaleToZero, quietFor(time.Hour)}, "1"},
		"the operator does not":       {[]option{economy, mode(workspace.ModeOff), quietFor(time.Hour)}, "1"},
		"an operator without a mode":  {[]option{economy, mode(""), quietFor(time.Hour)}, "1"},
		"no activator is ready":       {[]option{economy, activators(), quietFor(time.Hour)}, "1, again in 5m0s"},
		"a new operator":              {[]option{economy, quietFor(time.Hour), restarted}, "1, again in 5m0s"},
		"it was never ready":          {[]option{scaleToZero, settled, quietFor(time.Hour)}, "1, again in 5m0s"},
		"it is not ready any more":    {[]option{economy, rollout(1, 1, 0), settled, quietFor(time.Hour)}, "0"},
		"requests can still pass the activator by: a selector": {
			[]option{economy, strangersSelector, quietFor(time.Hour)}, "1, again in 5m0s",
		},
		"requests can still pass the activator by: another slice": {[]option{economy, theirs(true), quietFor(time.Hour)}, "1, again in 1s"},

		// Annotations.
		"idle":                                  {[]option{economy, idle}, "0"},
		"idle, and never ready":                 {[]option{scaleToZero, settled, idle}, "0"},
		"idle without an activator":             {[]option{economy, activators(), settled, idle}, "1, again in 5m0s"},
		"not really idle":                       {[]option{economy, annotated(v1alpha1.AnnotationIdle, "yes")}, "1, again in 5m0s"},
		"idle, and woken":                       {[]option{economy, idle, settled, request}, "1, again in 1s"},
		"idle, woken and ready":                 {[]option{economy, idle, settled, request, settled, ready(1)}, "1, again in 5m0s"},
		"idle, woken, and quiet":                {[]option{economy, idle, settled, request, settled, ready(1), quietFor(5 * time.Minute)}, "0"},
		"idle, and a new operator":              {[]option{economy, idle, settled, request, settled, ready(1), restarted}, "1, again in 5m0s"},
		"idle once more":                        {[]option{economy, idle, settled, request, settled, ready(1), notIdle, settled, idle}, "0"},
		"not idle any more: it needs a request": {[]option{economy, idle, settled, notIdle}, "0"},
		"kept awake":                            {[]option{economy, keepAwake("2026-07-10T10:30:00Z"), quietFor(time.Hour)}, "1, again in 30m0s"},
		"kept awake in another zone":            {[]option{economy, keepAwake("2026-07-10T17:30:00+07:00"), quietFor(time.Hour)}, "1, again in 30m0s"},
		"kept awake until now":                  {[]option{economy, keepAwake("2026-07-10T10:00:00Z"), quietFor(time.Hour)}, "0"},
		"kept awake and idle":                   {[]option{economy, keepAwake("2026-07-10T10:30:00Z"), idle}, "1, again in 30m0s"},
		"kept awake until whenever":             {[]option{economy, keepAwake("tomorrow"), quietFor(time.Hour)}, "1"},
		"woken to be kept awake":                {[]option{sleeps, keepAwake("2026-07-10T10:30:00Z")}, "1, again in 1s"},
		"woken by a mistake":                    {[]option{sleeps, keepAwake("")}, "1, again in 1s"},

		// Asleep.
		"asleep":                                   {[]option{sleeps}, "0"},
		"asleep, and a new operator":               {[]option{sleeps, restarted}, "0"},
		"asleep, and the Lease is gone":            {[]option{economy, request, quietFor(time.Hour), settled, func(in *workspace.Input) { in.Traffic.Lease = "" }}, "0"},
		"asleep, and no activator is ready":        {[]option{sleeps, activators()}, "0"},
		"asleep, and the window grows":             {[]option{sleeps, idleAfter(time.Hour)}, "0"},
		"a request":                                {[]option{sleeps, request}, "1, again in 1s"},
		"a request to a minimum of two":            {[]option{sleeps, minimum(2), settled, request}, "2, again in 1s"},
		"a request while no operator ran":          {[]option{sleeps, request, restarted}, "1, again in 1s"},
		"a request after failed wakes":             {[]option{sleeps, request, func(in *workspace.Input) { in.Traffic.Backoff = 20 * time.Second }}, "0, again in 20s"},
		"the class stops it":                       {[]option{sleeps, minimum(2), settled, noScaleToZero}, "2, again in 1s"},
		"the operator stops it":                    {[]option{sleeps, minimum(2), settled, mode(workspace.ModeOff)}, "2, again in 1s"},
		"a request that came while it fell asleep": {[]option{economy, request, quietFor(time.Hour), settled, request}, "1, again in 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(row.options...)
			plan := workspace.Make(in)
			fell, after := plan.FallsAsleep, plan.After
			if fell {
				if after != time.Second {
					t.Errorf("looks again in %s, want a second: requests may have come meanwhile", after)
				}
				after = 0
			}
			if in = then(in, planned); in.Workspace.Status.Conditions == nil {
				t.Fatal("there is no status")
			}
			got := strconv.Itoa(int(ptr.Deref(in.Children.Deployment.Live.Spec.Replicas, -1)))
			if after > 0 && readyCondition(in.Workspace.Status).Reason == v1alpha1.ReasonWaking {
				after = time.Second // the deadline of a wake has a test of its own
			}
			if after > 0 {
				got += ", again in " + after.String()
			}
			if got != row.want {
				t.Errorf("replicas %s, want %s", got, row.want)
			}
			if was := given(row.options...).Children.Deployment.Live.Annotations[v1alpha1.AnnotationSleep]; fell != (!strings.HasPrefix(was, "asleep") && strings.HasPrefix(got, "0")) {
				t.Errorf("FallsAsleep is %v for one that was %q and has %s", fell, was, got)
			}
			settled(&in)
		})
	}
}

func TestScaleToZeroActive(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    string
	}{
		"another class":                     {[]option{settled}, " "},
		"it may":                            {[]option{economy}, "True IdleWatched"},
		"asleep":                            {[]option{sleeps}, "True IdleWatched"},
		"off":                               {[]option{economy, mode(workspace.ModeOff)}, "False ScaleToZeroOff"},
		"no activator":                      {[]option{economy, activators()}, "False NoActivator"},
		"asleep, no activator":              {[]option{sleeps, activators()}, "False NoActivator"},
		"kept awake":                        {[]option{economy, keepAwake("2026-07-10T10:30:00Z")}, "False KeptAwake"},
		"was kept awake":                    {[]option{economy, keepAwake("2026-07-10T09:30:00Z")}, "True IdleWatched"},
		"a malformed annotation":            {[]option{economy, keepAwake("tomorrow")}, "False InvalidAnnotation"},
		"a selector of strangers":           {[]option{economy, strangersSelector}, "False SelectorHeld"},
		"a selector that is on its way out": {[]option{scaleToZero, activators(), settled, activators("10.0.0.1")}, "True IdleWatched"},
	} {
		t.Run(name, func(t *testing.T) {
			got := conditionOf(workspace.Make(given(row.options...)).Status, v1alpha1.ConditionScaleToZeroActive)
			if have := string(got.Status) + " " + got.Reason; have != row.want {
				t.Errorf("it is %s %q, want %s", have, got.Message, row.want)
			}
		})
	}
}

// strangersSelector is what another field manager states on the Service, too.
func strangersSelector(in *workspace.Input) {
	in.Children.Service.Live = in.Children.Service.Live.DeepCopy()
	in.Children.Service.Live.Spec.Selector = map[string]string{v1alpha1.LabelWorkspace: "shop"}
}

func TestAWakeThatFails(t *testing.T) {
	in := given(sleeps)
	for _, step := range []struct {
		name   string
		change option
		want   string
		phase  v1alpha1.Phase
		after  time.Duration
	}{
		{"a request", request, "Unknown Waking", v1alpha1.PhasePending, time.Minute},
		{"a while later", at(40 * time.Second), "Unknown Waking", v1alpha1.PhasePending, 20 * time.Second},
		{"the deadline", at(60 * time.Second), "False WakeFailed", v1alpha1.PhaseDegraded, 5 * time.Minute},
		{"it goes on", at(70 * time.Second), "False WakeFailed", v1alpha1.PhaseDegraded, 5 * time.Minute},
		{"a reason is found", pods(waits("ErrImagePull", "gone")), "False ImagePullBackOff", v1alpha1.PhaseDegraded, 5 * time.Minute},
		{"nobody asks any more", both(at(10*time.Minute), quietFor(5*time.Minute)), "False WakeFailed", v1alpha1.PhaseDegraded, time.Second},
		{"its pods go", both(pods(), rollout(0, 0, 0)), "False WakeFailed", v1alpha1.PhaseDegraded, 0},
		{"another request", both(at(20*time.Minute), request), "Unknown Waking", v1alpha1.PhasePending, time.Minute},
		{"now it works", both(rollout(1, 1, 1), ready(1)), "True Available", v1alpha1.PhaseReady, 5 * time.Minute},
	} {
		in = then(in, step.change)
		after := workspace.Make(in).After
		in = then(in, planned)
		got := readyCondition(in.Workspace.Status)
		if have := string(got.Status) + " " + got.Reason; have != step.want || in.Workspace.Status.Phase != step.phase || after != step.after {
			t.Errorf("%s: Ready is %s %q in phase %s, again in %s; want %s, %s, %s", step.name, have, got.Message, in.Workspace.Status.Phase, after, step.want, step.phase, step.after)
		}
	}
}

// Only a rollout that did not succeed is a wake that failed.
func TestWhatFallsAsleepNotReady(t *testing.T) {
	mended := both(both(region("a"), classRegion("b")), planned, classRegion("a"), region("a"))
	refused := both(func(in *workspace.Input) { in.Refusal = new(reconcile.Refused("a write is refused", "no")) }, planned, func(in *workspace.Input) { in.Refusal = nil })
	for name, row := range map[string]struct {
		options []option
		want    string
	}{
		"it was ready":                            {[]option{economy}, "True Asleep"},
		"an obstacle was there until now":         {[]option{economy, mended}, "True Asleep"},
		"a write was refused until now":           {[]option{economy, refused}, "True Asleep"},
		"its image is gone":                       {[]option{economy, rollout(1, 1, 0), pods(waits("ErrImagePull", "gone")), planned}, "False WakeFailed"},
		"its image is gone since just now":        {[]option{economy, rollout(1, 1, 0), pods(waits("ErrImagePull", "gone"))}, "False WakeFailed"},
		"an obstacle was there, and it lost pods": {[]option{economy, mended, rollout(1, 1, 0), pods(waits("ErrImagePull", "gone"))}, "False WakeFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			in := then(given(row.options...), quietFor(5*time.Minute))
			plan := workspace.Make(in)
			got := readyCondition(plan.Status)
			if have := string(got.Status) + " " + got.Reason; have != row.want || !plan.FallsAsleep {
				t.Errorf("Ready is %s %q, want %s; falls asleep: %v", have, got.Message, row.want, plan.FallsAsleep)
			}
		})
	}
}
