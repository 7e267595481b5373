// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// bindings gathers the claims with the verdict on each, and what the Workspace lists.
func (c *Controller) bindings(key cache.ObjectName, in *workspace.Input) error {
	judged, err := c.judge.OfWorkspace(key, in.Now)
	if err != nil {
		return err
	}
	var had map[string][]byte // what the workspace was handed last
	if in.Children.Credentials.Exists() {
		had = in.Children.Credentials.Ours.Data
	}
	for _, j := range judged {
		binding := workspace.Binding{Claim: j.Claim, Approved: j.Verdict.Approved, Reason: j.Verdict.Reason, Message: j.Verdict.Message}
		if binding.Credentials, binding.Awaited, err = c.inForce(j.Claim, had); err != nil {
			return err
		}
		in.Bindings = append(in.Bindings, binding)
		if next := j.Verdict.Next; !next.IsZero() {
			in.Recheck = reconcile.Sooner(in.Recheck, next.Sub(in.Now))
		}
	}
	for _, reference := range slices.Concat(in.Workspace.Spec.Datastores, in.Workspace.Spec.Cache) {
		listed := workspace.Listed{DatastoreReference: reference}
		if listed.Datastore, err = c.datastores.Datastores(key.Namespace).Get(reference.Name); apierrors.IsNotFound(err) {
			listed.Datastore = nil
		} else if err != nil {
			return fmt.Errorf("get Datastore %q: %w", reference.Name, err)
		}
		in.Listed = append(in.Listed, listed)
	}
	return nil
}

// inForce is a Secret with the credentials that the claim gets: the datastore's, or with roles PerClaim those of the claim's own login. Until
// there is one, the workspace keeps what it had of the datastore's. Nil: there are none yet, or somebody else's Secret has the name. They
// are awaited unless the datastore or the login has failed.
func (c *Controller) inForce(claim *v1alpha1.ResourceClaim, had map[string][]byte) (credentials *corev1.Secret, awaited bool, err error) {
	ds, err := c.datastores.Datastores(claim.Namespace).Get(claim.Spec.Datastore)
	if err != nil {
		return nil, false, nil // a cache has it, or has not
	}
	awaited = !meta.IsStatusConditionFalse(ds.Status.Conditions, v1alpha1.ConditionValidated)
	if !resourceclaim.PerClaim(ds) {
		credentials, err = c.managed(names.Datastore(ds.Name), ds)
		return credentials, awaited && credentials == nil, err
	}
	awaited = awaited && !meta.IsStatusConditionFalse(claim.Status.Conditions, v1alpha1.ConditionRoleReady)
	if credentials, err = c.managed(names.Claim(claim.Name), claim); err != nil || credentials != nil {
		return credentials, false, err
	}
	shared, err := c.managed(names.Datastore(ds.Name), ds)
	if err != nil || shared == nil {
		return nil, awaited, err
	}
	credentials = workspace.Kept(claim, shared, had, roles.IsLogin)
	return credentials, awaited && credentials == nil, nil
}

// managed is the Secret of that name with credentials. Nil: there is none, or it is not the owner's.
func (c *Controller) managed(name string, owner metav1.Object) (*corev1.Secret, error) {
	secret, err := c.secrets.Secrets(owner.GetNamespace()).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	if !metav1.IsControlledBy(secret, owner) || secret.Annotations[v1alpha1.AnnotationRevision] == "" {
		return nil, nil // a claim that has no login has an empty Secret
	}
	return secret, nil
}

// claimHandler wakes the Workspace that a claim names, and the one that it named before.
func (c *Controller) claimHandler() cache.TypedResourceEventHandler[*v1alpha1.ResourceClaim] {
	wake := func(claim *v1alpha1.ResourceClaim) {
		c.enqueue(cache.NewObjectName(claim.Namespace, claim.Spec.Workspace), now)
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*v1alpha1.ResourceClaim]{
		AddFunc: func(claim *v1alpha1.ResourceClaim, initial bool) {
			if !initial { // every Workspace wakes at the start anyway
				wake(claim)
			}
		},
		UpdateFunc: func(old, cur *v1alpha1.ResourceClaim) {
			if old.UID != cur.UID || old.Generation != cur.Generation || (old.DeletionTimestamp == nil) != (cur.DeletionTimestamp == nil) {
				wake(old)
				wake(cur)
			}
		},
		DeleteFunc: func(claim cache.DeletedObject[*v1alpha1.ResourceClaim]) {
			if claim.OptionalObj != nil {
				wake(claim.OptionalObj)
			}
		},
	}
}

// datastoreHandler wakes the Workspaces that list a datastore or hold a claim for it.
func (c *Controller) datastoreHandler() cache.TypedResourceEventHandler[*v1alpha1.Datastore] {
	wake := func(namespace, name string) {
		c.wakeClaimants(namespace, name)
		workspaces, err := c.workspaceIndex.ByTypedIndex(index.WorkspacesByDatastore, index.Key(namespace, name))
		if err != nil {
			return // the index is always there
		}
		for _, ws := range workspaces {
			c.enqueue(cache.MetaObjectToName(ws), now)
		}
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*v1alpha1.Datastore]{
		AddFunc: func(ds *v1alpha1.Datastore, initial bool) {
			if !initial { // every Workspace wakes at the start anyway
				wake(ds.Namespace, ds.Name)
			}
		},
		UpdateFunc: func(old, cur *v1alpha1.Datastore) {
			if old.UID != cur.UID || old.Generation != cur.Generation || (old.DeletionTimestamp == nil) != (cur.DeletionTimestamp == nil) {
				wake(cur.Namespace, cur.Name)
			}
		},
		DeleteFunc: func(ds cache.DeletedObject[*v1alpha1.Datastore]) { wake(ds.GetNamespace(), ds.GetName()) },
	}
}

// wakeClaimants wakes the Workspaces with a claim for a datastore.
func (c *Controller) wakeClaimants(namespace, datastore string) {
	claims, err := c.claimIndex.ByTypedIndex(index.ClaimsByDatastore, index.Key(namespace, datastore))
	if err != nil {
		return // the index is always there
	}
	for _, claim := range claims {
		c.enqueue(cache.NewObjectName(namespace, claim.Spec.Workspace), now)
	}
}

// wakeClaimant wakes the Workspace that a claim names.
func (c *Controller) wakeClaimant(namespace, name string) {
	object, found, err := c.claimIndex.GetByKey(namespace + "/" + name)
	if claim, ok := object.(*v1alpha1.ResourceClaim); err == nil && found && ok {
		c.enqueue(cache.NewObjectName(namespace, claim.Spec.Workspace), now)
	}
}

// ownerKeysChanged wakes every Workspace with a claim, which is rare.
func (c *Controller) ownerKeysChanged() {
	for _, object := range c.claimIndex.List() {
		if claim, ok := object.(*v1alpha1.ResourceClaim); ok {
			c.enqueue(cache.NewObjectName(claim.Namespace, claim.Spec.Workspace), now)
		}
	}
}
