// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// ReadHolders reads who holds a slot, after this process has won the election and before its workers start: the caches may not show yet what the
// last leader did. A Workspace holds one by its status, and one that runs or still ends by the Deployment that the status never told of.
func (l *Ledger) ReadHolders(ctx context.Context, kube kubernetes.Interface, formspec versioned.Interface, namespace string) error {
	defer l.read()()
	running, err := l.readDeployments(ctx, kube, namespace)
	if err != nil {
		return fmt.Errorf("list Deployments: %w", err)
	}
	workspaces := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return formspec.FormspecV1alpha1().Workspaces(namespace).List(ctx, options)
	})
	err = workspaces.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		ws, ok := object.(*v1alpha1.Workspace)
		if !ok {
			return nil
		}
		class, runs := running[ws.UID]
		switch admitted := AdmittedClass(ws); {
		case runs && class == ws.Spec.ClusterClass:
			// The Deployment is written before the status: it has the last word.
		case admitted != "":
			l.seed(ws.UID, admitted)
		case class != "":
			// Seeded already.
		default:
			if !runs {
				runs, err = runsUnmarked(ctx, kube, ws)
			}
			if runs && err == nil {
				l.seed(ws.UID, ws.Spec.ClusterClass) // it ran before there were slots
			}
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list Workspaces: %w", err)
	}
	return nil
}

// readDeployments returns the class that each Deployment of ours takes a slot of, by the UID of the Workspace. The class is empty if it does not say.
func (l *Ledger) readDeployments(ctx context.Context, kube kubernetes.Interface, namespace string) (map[types.UID]string, error) {
	running := map[types.UID]string{}
	ours := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}).String()}
	deployments := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return kube.AppsV1().Deployments(namespace).List(ctx, options)
	})
	err := deployments.EachListItem(ctx, ours, func(object runtime.Object) error {
		d, ok := object.(*appsv1.Deployment)
		if !ok {
			return nil
		}
		if owner := metav1.GetControllerOfNoCopy(d); owner != nil {
			class := d.Annotations[v1alpha1.AnnotationClusterClass]
			if running[owner.UID] = class; class != "" {
				l.seed(owner.UID, class)
			}
		}
		return nil
	})
	return running, err
}

// runsUnmarked says whether the Workspace has a Deployment that does not carry our label, as another operator may have made it.
func runsUnmarked(ctx context.Context, kube kubernetes.Interface, ws *v1alpha1.Workspace) (bool, error) {
	deployment, err := kube.AppsV1().Deployments(ws.Namespace).Get(ctx, names.Deployment(ws.Name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && metav1.IsControlledBy(deployment, ws), err
}

// read keeps in mind who is released until the returned function is called: a read may be older than that.
func (l *Ledger) read() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = map[types.UID]bool{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.gone = nil
	}
}
