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

// workspaces returns all of them.
func (s scopes) workspaces() (all []*v1alpha1.Workspace, err error) {
	for _, scope := range s {
		list, err := scope.Workspaces.Lister().List(labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("list Workspaces: %w", err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// datastores returns all of them.
func (s scopes) datastores() (all []*v1alpha1.Datastore, err error) {
	for _, scope := range s {
		list, err := scope.Datastores.Lister().List(labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("list Datastores: %w", err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// claims returns all of them.
func (s scopes) claims() (all []*v1alpha1.ResourceClaim, err error) {
	for _, scope := range s {
		list, err := scope.Claims.Lister().List(labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("list ResourceClaims: %w", err)
		}
		all = append(all, list...)
	}
	return all, nil
}

// pods returns all of them.
func (s scopes) pods() (all []*corev1.Pod, err error) {
	for _, scope := range s {
		list, err := scope.Pods.Lister().List(labels.Everything())
		if err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		all = append(all, list...)
	}
	return all, nil
}
