// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// running gives the test a fixture whose workers run until the test is over. What they log as an error is dropped: of the default handlers one
// makes a pause from the last error on, which was outside of the bubble and so decades ahead of its clock.
func running(t *testing.T, objects []runtime.Object, test func(f *fixture)) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	run(t, objects, func(f *fixture) {
		ctx, stop := context.WithCancel(f.t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx, 2) }()
		test(f)
		stop()
		if err := <-done; err != nil {
			f.t.Errorf("Run returned %v, want nil", err)
		}
	})
}

// pass lets time go by until all is quiet.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestAWorkspaceBecomesReadyAndThenAllIsQuiet(t *testing.T) {
	running(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		pass(time.Second)
		f.expectRequests(everything...)
		f.rolledOut(2)
		pass(time.Second)
		f.expectRequests("status Workspace")
		f.expectReady(metav1.ConditionTrue, v1alpha1.ReasonAvailable)
		f.expectEvents("Normal Available")
		pass(time.Hour)
		f.expectRequests()
	})
}

func TestARefusedWriteIsTriedAgainAtASteadyPace(t *testing.T) {
	running(t, []runtime.Object{aClass()}, func(f *fixture) {
		f.fail("create Deployment", apierrors.NewForbidden(things, "x", errors.New("exceeded quota: small")))
		f.add(aWorkspace())
		pass(time.Second)
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonQuotaExceeded)
		f.sent()
		pass(10 * time.Minute)
		if tries := f.sent(); len(tries) != 20 || len(slices.Compact(tries)) != 1 || tries[0] != "create Deployment" {
			f.t.Errorf("requests %q in ten minutes, want the one that is refused every 30 s, also after many", tries)
		}
		f.expectEvents("Warning QuotaExceeded")

		f.fail("create Deployment", nil)
		pass(30 * time.Second)
		f.expectRequests("create Deployment", "create PodDisruptionBudget", "create HorizontalPodAutoscaler", "status Workspace")
	})
}

func TestANameThatIsFreedIsTaken(t *testing.T) {
	foreign := &corev1.Service{ObjectMeta: objectMeta(childName)}
	running(t, []runtime.Object{aWorkspace(), aClass(), foreign}, func(f *fixture) {
		pass(time.Minute)
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonNameConflict)
		if err := f.kube.Tracker().Delete(servicesResource, "bank", childName); err != nil {
			f.t.Fatal(err)
		}
		pass(30 * time.Second)
		f.expectReady(metav1.ConditionUnknown, v1alpha1.ReasonRolloutInProgress)
		f.expectEvents("Warning NameConflict")
	})
}

// A namespace that is going refuses every creation. That is no error to repeat, and the deletion of its workspace still works.
func TestANamespaceThatIsGoingIsLeftAlone(t *testing.T) {
	terminating := apierrors.NewForbidden(things, "x", errors.New("because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	running(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		pass(time.Second)
		f.sent()
		for _, kind := range []string{"Secret", "ConfigMap", "Service", "Deployment"} {
			f.fail("create "+kind, terminating)
		}
		if err := f.kube.Tracker().Delete(deploymentsResource, "bank", childName); err != nil {
			f.t.Fatal(err)
		}
		pass(10 * time.Minute)
		f.expectRequests("create Deployment")
		if err := f.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("configmaps"), "bank", childName+"-config"); err != nil {
			f.t.Fatal(err)
		}
		pass(10 * time.Minute)
		f.expectRequests()

		f.remove()
		pass(time.Second)
		// A sync that comes before the deletion is seen tries once more, and finds nothing.
		if got, want := slices.Compact(f.sent()), []string{"apply Secret", "patch Workspace"}; !slices.Equal(got, want) {
			f.t.Errorf("requests %q, want %q", got, want)
		}
	})
}
