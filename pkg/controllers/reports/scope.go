// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// Scope has the informers of one set of namespaces: all, or one that the operator is limited to.
type Scope struct {
	// Namespace is empty for all.
	Namespace string

	Workspaces  formspecinformers.TypedWorkspaceInformer
	Datastores  formspecinformers.TypedDatastoreInformer
	Claims      formspecinformers.TypedResourceClaimInformer
	Deployments appsinformers.TypedDeploymentInformer
	Pods        coreinformers.TypedPodInformer
}

// scopes are what reporters read. They share no namespace.
type scopes []Scope

// prepare asks for the informers, and adds the indexes. It must be called before the informers start.
func (s scopes) prepare() error {
	var errs []error
	for _, scope := range s {
		for _, informer := range []interface {
			Informer() cache.SharedIndexInformer
		}{scope.Workspaces, scope.Datastores, scope.Claims, scope.Deployments, scope.Pods} {
			informer.Informer() // a factory starts those that somebody has asked for
		}
		errs = append(errs, index.Workspaces(scope.Workspaces.TypedInformer()))
	}
	return errors.Join(errs...)
}

// workspace returns the Workspace of a key, or nil.
func (s scopes) workspace(key cache.ObjectName) *v1alpha1.Workspace {
	for _, scope := range s {
		if ws, err := scope.Workspaces.Lister().Workspaces(key.Namespace).Get(key.Name); err == nil {
			return ws
		}
	}
	return nil
}

// deployment returns the Workspace's own Deployment, or nil.
func (s scopes) deployment(ws *v1alpha1.Workspace) *appsv1.Deployment {
	for _, scope := range s {
		deployment, err := scope.Deployments.Lister().Deployments(ws.Namespace).Get(names.Deployment(ws.Name))
		if err == nil && workspace.Owns(ws, deployment) {
			return deployment
		}
	}
	return nil
}

// lister lists one kind.
type lister[T any] interface {
	List(selector labels.Selector) ([]T, error)
}

// all returns the objects of one kind.
func all[T any](s scopes, kind string, of func(Scope) lister[T]) (found []T, err error) {
	for _, scope := range s {
		list, err := of(scope).List(labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		found = append(found, list...)
	}
	return found, nil
}

func (s scopes) workspaces() ([]*v1alpha1.Workspace, error) {
	return all(s, "Workspaces", func(scope Scope) lister[*v1alpha1.Workspace] { return scope.Workspaces.Lister() })
}

func (s scopes) datastores() ([]*v1alpha1.Datastore, error) {
	return all(s, "Datastores", func(scope Scope) lister[*v1alpha1.Datastore] { return scope.Datastores.Lister() })
}

func (s scopes) claims() ([]*v1alpha1.ResourceClaim, error) {
	return all(s, "ResourceClaims", func(scope Scope) lister[*v1alpha1.ResourceClaim] { return scope.Claims.Lister() })
}

func (s scopes) pods() ([]*corev1.Pod, error) {
	return all(s, "pods", func(scope Scope) lister[*corev1.Pod] { return scope.Pods.Lister() })
}
