// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// workspace creates a Workspace of a class.
func (s *scenario) workspace(name string, class *v1alpha1.ClusterClass, change ...func(*v1alpha1.Workspace)) *tenant {
	s.Helper()
	ws := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec:       v1alpha1.WorkspaceSpec{ClusterClass: class.Name},
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

func (w *tenant) deployment() *appsv1.Deployment {
	w.Helper()
	d, err := w.kube.AppsV1().Deployments(w.namespace).Get(w.Context(), names.Deployment(w.name), metav1.GetOptions{})
	w.must("get the Deployment", err)
	return d
}

// replicaSets are the revisions that the Deployment has had.
func (w *tenant) replicaSets() []appsv1.ReplicaSet {
	w.Helper()
	list, err := w.kube.AppsV1().ReplicaSets(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: w.selector()})
	w.must("list the ReplicaSets", err)
	return list.Items
}

func (w *tenant) pods() []corev1.Pod {
	w.Helper()
	list, err := w.kube.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: w.selector()})
	w.must("list the pods", err)
	return list.Items
}

func (w *tenant) selector() string { return v1alpha1.LabelWorkspace + "=" + names.Label(w.name) }

// patch merges a JSON patch into the Workspace.
func (w *tenant) patch(patch string) *v1alpha1.Workspace {
	w.Helper()
	ws, err := w.formspec.FormspecV1alpha1().Workspaces(w.namespace).
		Patch(w.Context(), w.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	w.must("patch the Workspace", err)
	return ws
}

// ready waits until the Workspace is Ready in its present generation, as every tool would read it.
func (w *tenant) ready() *tenant {
	w.Helper()
	w.eventually("Workspace "+w.name+" is Ready", func() error { return readyNow(w.get()) })
	return w
}

func readyNow(ws *v1alpha1.Workspace) error {
	return condition(ws, v1alpha1.ConditionReady, metav1.ConditionTrue, "")
}

// failing waits until the Workspace is not Ready for a reason, with each of the texts in its message.
func (w *tenant) failing(reason string, texts ...string) {
	w.Helper()
	w.eventually("Workspace "+w.name+" says "+reason, func() error { return failingNow(w.get(), reason, texts...) })
}

func failingNow(ws *v1alpha1.Workspace, reason string, texts ...string) error {
	return condition(ws, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, texts...)
}

// condition returns an error unless the condition is that of the present generation. An empty reason is any.
func condition(ws *v1alpha1.Workspace, conditionType string, status metav1.ConditionStatus, reason string, texts ...string) error {
	return workspaceSubject(ws).has(conditionType, status, reason, texts...)
}

// rolledOut waits until the Deployment is what "kubectl rollout status" calls rolled out.
func (w *tenant) rolledOut() {
	w.Helper()
	w.eventually("the Deployment of "+w.name+" is rolled out", func() error { return rolledOutNow(w.deployment()) })
}

func rolledOutNow(d *appsv1.Deployment) error {
	want := ptr.Deref(d.Spec.Replicas, 1)
	if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.Replicas > s.UpdatedReplicas || s.AvailableReplicas < s.UpdatedReplicas {
		return fmt.Errorf("of %d replicas in generation %d: %+v", want, d.Generation, s)
	}
	return nil
}
