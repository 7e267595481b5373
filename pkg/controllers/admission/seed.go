// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
)

// ReadHolders reads who holds a slot, after this process has won the election and before its workers start: the caches may not show yet what the
// last leader did. A Workspace holds one by its status, and one that runs or still ends by the Deployment that the status never told of.
func (l *Ledger) ReadHolders(ctx context.Context, kube kubernetes.Interface, formspec versioned.Interface, namespace string) error {
	ours := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}).String()}
	deployments := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return kube.AppsV1().Deployments(namespace).List(ctx, options)
	})
	err := deployments.EachListItem(ctx, ours, func(object runtime.Object) error {
		if d, ok := object.(*appsv1.Deployment); ok && d.Annotations[v1alpha1.AnnotationClusterClass] != "" {
			if owner := metav1.GetControllerOfNoCopy(d); owner != nil {
				l.Seed(owner.UID, d.Annotations[v1alpha1.AnnotationClusterClass])
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list Deployments: %w", err)
	}
	workspaces := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return formspec.FormspecV1alpha1().Workspaces(namespace).List(ctx, options)
	})
	err = workspaces.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if ws, ok := object.(*v1alpha1.Workspace); ok {
			if class := AdmittedClass(ws); class != "" {
				l.Seed(ws.UID, class)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list Workspaces: %w", err)
	}
	return nil
}
