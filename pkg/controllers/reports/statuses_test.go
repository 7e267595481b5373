// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// heard are the statuses since the last time, as name phase desired.
func (w *world) heard() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, s := range w.statuses {
		list = append(list, fmt.Sprintf("%s %s %d", s.Workspace, s.Phase, s.DesiredReplicas))
	}
	w.statuses = nil
	slices.Sort(list)
	return list
}

func (w *world) becomes(name string, phase v1alpha1.Phase) {
	w.t.Helper()
	ws, err := w.formspec.FormspecV1alpha1().Workspaces("bank").Get(w.t.Context(), name, metav1.GetOptions{})
	w.must(err)
	ws.Status.Phase = phase
	_, err = w.formspec.FormspecV1alpha1().Workspaces("bank").UpdateStatus(w.t.Context(), ws, metav1.UpdateOptions{})
	w.must(err)
}

func TestStatuses(t *testing.T) {
	web, api := aWorkspace("web"), aWorkspace("api")
	fresh := aWorkspace("fresh", func(ws *v1alpha1.Workspace) { ws.Status = v1alpha1.WorkspaceStatus{} })
	inWorld(t, []runtime.Object{web, api, fresh, aDeployment(web, 2)}, func(t *testing.T, w *world) {
		defer w.leads()()
		pass(time.Minute)
		wants(t, "a new leader", w.heard(), "api Ready 0", "web Ready 2")

		w.becomes("web", v1alpha1.PhaseDegraded)
		w.becomes("web", v1alpha1.PhaseReady)
		w.becomes("web", v1alpha1.PhaseDegraded)
		pass(time.Minute)
		wants(t, "a burst", w.heard(), "web Degraded 2")

		ws, err := w.formspec.FormspecV1alpha1().Workspaces("bank").Get(t.Context(), "api", metav1.GetOptions{})
		w.must(err)
		ws.Labels = map[string]string{"a": "b"}
		_, err = w.formspec.FormspecV1alpha1().Workspaces("bank").Update(t.Context(), ws, metav1.UpdateOptions{})
		w.must(err)
		pass(time.Minute)
		wants(t, "a change that tells nothing", w.heard())

		d := aDeployment(web, 5)
		d.Generation = 2
		_, err = w.kube.AppsV1().Deployments("bank").Update(t.Context(), d, metav1.UpdateOptions{})
		w.must(err)
		pass(time.Minute)
		wants(t, "another count of replicas", w.heard(), "web Degraded 5")

		w.must(w.formspec.FormspecV1alpha1().Workspaces("bank").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		pass(time.Minute)
		wants(t, "the end", w.heard(), "web Terminating 0")
	})
}

// Afterwards everybody was told once: those whose status has changed meanwhile are on their way already.
func TestStatusesAfterAnOutage(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web"), aWorkspace("api")}, func(t *testing.T, w *world) {
		defer w.leads()()
		pass(time.Minute)
		w.heard()
		w.loop.Reachable(false)
		pass(time.Minute)
		w.becomes("web", v1alpha1.PhaseDegraded)
		pass(time.Minute)
		wants(t, "meanwhile", w.heard(), "web Degraded 0")
		w.loop.Reachable(true)
		pass(time.Minute)
		wants(t, "afterwards", w.heard(), "api Ready 0")
		w.loop.Reachable(true)
		pass(time.Minute)
		wants(t, "again", w.heard())
	})
}

func TestStatusesAreToldAnewOnceTheyAreTrusted(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web")}, func(t *testing.T, w *world) {
		defer w.leads()()
		pass(time.Minute)
		w.heard()
		w.loop.Trusted()
		pass(time.Minute)
		wants(t, "told", w.heard(), "web Ready 0")
	})
}

// The leader that saw a Workspace go may die before it tells.
func TestStandbyRemembersWhoHasGone(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("long-ago"), aWorkspace("just-now")}, func(t *testing.T, w *world) {
		remove := func(name string) {
			w.must(w.formspec.FormspecV1alpha1().Workspaces("bank").Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		remove("long-ago")
		pass(time.Hour)
		remove("just-now")
		pass(time.Minute)
		defer w.leads()()
		pass(time.Minute)
		wants(t, "told", w.heard(), "just-now Terminating 0")
	})
}
