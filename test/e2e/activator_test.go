// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// activatorSelector selects the activator's pods in v1alpha1.ActivatorNamespace.
const activatorSelector = "app.kubernetes.io/name=" + v1alpha1.ActivatorService

// coldStartHeader is on the answer to a request that woke its Workspace.
const coldStartHeader = "X-Formspec-Cold-Start"

// shortestWindow is the shortest idle window that the operator takes.
const shortestWindow = 10 * time.Second

// long says whether tests have the size and the length of the issue that asked for them. Otherwise they are scaled down.
func long() bool { return os.Getenv("FORMSPEC_LONG") != "" }

// either returns the first value in the long form of a test and the second in the short one.
func either[T any](inLong, inShort T) T {
	if long() {
		return inLong
	}
	return inShort
}

// economy is a class whose Workspaces sleep after that long without a request.
func economy(window time.Duration) func(*v1alpha1.ClusterClass) {
	return func(class *v1alpha1.ClusterClass) {
		class.Spec.Scaling.ScaleToZero = true
		class.Spec.Scaling.IdleAfter = &metav1.Duration{Duration: window}
	}
}

// of runs an image that the scenario made.
func of(image string) func(*v1alpha1.ClusterClass) {
	return func(class *v1alpha1.ClusterClass) { class.Spec.ResourceImage = image }
}

// activators are the activator's pods that are not being deleted, once there are two and both are Ready.
func (s *scenario) activators() []corev1.Pod {
	s.Helper()
	return s.running(v1alpha1.ActivatorNamespace, activatorSelector, 2)
}

// watched waits until each request to the Workspace passes the activator, and the operator has been told of those that were sent until now: if
// that came after the Workspace was sent to sleep it would be a wake.
func (w *tenant) watched() *tenant {
	w.Helper()
	w.eventually("the activator tells of requests to "+w.name, func() error {
		_, err := w.kube.CoordinationV1().Leases(v1alpha1.ActivatorNamespace).Get(w.Context(), string(w.get().UID), metav1.GetOptions{})
		return err
	})
	w.eventually("the activator is in front of Workspace "+w.name, func() error {
		for _, c := range w.get().Status.Conditions {
			if c.Type == v1alpha1.ConditionScaleToZeroActive && c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", w.get().Status.Conditions)
	})
	return w
}

// toSleep sends Workspaces to sleep by their annotation, and waits until their pods are gone.
func (s *scenario) toSleep(all ...*tenant) {
	s.Helper()
	for _, w := range all {
		w.patch(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationIdle + `":null}}}`)
	}
	for _, w := range all {
		// Until the operator has seen that the annotation was gone it would take it for the old one.
		w.eventually("the operator has forgotten that "+w.name+" was idle", func() error {
			if w.deployment().Annotations[v1alpha1.AnnotationSleep] != "" {
				return errors.New("it has not")
			}
			return nil
		})
		w.patch(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationIdle + `":"true"}}}`)
	}
	for _, w := range all {
		w.asleep()
	}
}

// asleep waits until the Workspace sleeps and its pods are gone.
func (w *tenant) asleep() {
	w.Helper()
	w.eventually("Workspace "+w.name+" sleeps", func() error {
		ws := w.get()
		if ws.Status.Phase != v1alpha1.PhaseSleeping {
			return fmt.Errorf("its phase is %s, its conditions are %+v", ws.Status.Phase, ws.Status.Conditions)
		}
		if n := ptr.Deref(w.deployment().Spec.Replicas, 1); n != 0 {
			return fmt.Errorf("it has %d replicas", n)
		}
		if pods := w.pods(); len(pods) > 0 {
			return fmt.Errorf("%d pods are still there", len(pods))
		}
		return nil
	})
}

// percentile of durations, which it sorts.
func percentile(all []time.Duration, percent int) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}
