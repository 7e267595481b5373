// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// tenant is one Workspace of a scenario.
type tenant struct {
	*scenario
	name string
}

// simulated puts a Workspace on the simulated nodes, where pods become Ready at once and nothing answers.
func simulated(ws *v1alpha1.Workspace) { ws.Spec.Environment = simulatedEnvironment }

// workspace creates a Workspace of a class on the real node.
func (s *scenario) workspace(name string, class *v1alpha1.ClusterClass, change ...func(*v1alpha1.Workspace)) *tenant {
	s.Helper()
	ws := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec:       v1alpha1.WorkspaceSpec{ClusterClass: class.Name, Environment: realEnvironment},
	}
	for _, f := range change {
		f(ws)
	}
	_, err := s.formspec.FormspecV1alpha1().Workspaces(s.namespace).Create(s.Context(), ws, metav1.CreateOptions{})
	s.must("create the Workspace", err)
	return &tenant{scenario: s, name: name}
}

func (w *tenant) get() *v1alpha1.Workspace {
	w.Helper()
	ws, err := w.formspec.FormspecV1alpha1().Workspaces(w.namespace).Get(w.Context(), w.name, metav1.GetOptions{})
	w.must("get the Workspace", err)
	return ws
}

// patch merges a JSON patch into the Workspace.
func (w *tenant) patch(patch string) {
	w.Helper()
	_, err := w.formspec.FormspecV1alpha1().Workspaces(w.namespace).
		Patch(w.Context(), w.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must("patch the Workspace", err)
}

// ready waits until the Workspace is Ready in its present generation.
func (w *tenant) ready() *tenant {
	w.Helper()
	w.eventually("Workspace "+w.name+" is Ready", func() error {
		ws := w.get()
		ready := apimeta.FindStatusCondition(ws.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != ws.Generation {
			return fmt.Errorf("in generation %d Ready is %+v", ws.Generation, ready)
		}
		return nil
	})
	return w
}

func (w *tenant) deployment() *appsv1.Deployment {
	w.Helper()
	d, err := w.kube.AppsV1().Deployments(w.namespace).Get(w.Context(), names.Deployment(w.name), metav1.GetOptions{})
	w.must("get the Deployment", err)
	return d
}

// rolledOut waits until the Deployment is what "kubectl rollout status" calls rolled out, and the pods from before are gone.
func (w *tenant) rolledOut() {
	w.Helper()
	w.eventually("the Deployment of "+w.name+" is rolled out", func() error {
		d := w.deployment()
		want := ptr.Deref(d.Spec.Replicas, 1)
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.Replicas > s.UpdatedReplicas || s.AvailableReplicas < s.UpdatedReplicas {
			return fmt.Errorf("of %d replicas in generation %d: %+v", want, d.Generation, s)
		}
		if pods := w.pods(); len(pods) != int(want) {
			return fmt.Errorf("there are %d pods, want %d", len(pods), want)
		}
		return nil
	})
}

func (w *tenant) pods() []corev1.Pod {
	w.Helper()
	list, err := w.kube.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: w.selector()})
	w.must("list the pods", err)
	return list.Items
}

func (w *tenant) selector() string { return v1alpha1.LabelWorkspace + "=" + names.Label(w.name) }
