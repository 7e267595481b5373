// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

func addIndexes(config Config) error {
	return errors.Join(index.Claims(config.Claims.TypedInformer()), index.Datastores(config.Datastores.TypedInformer()))
}

// arrival is how long a new claim waits for the Datastore and the Workspace that it names: what is created together arrives together, and a
// verdict that holds for a moment is not worth a write.
const arrival = 500 * time.Millisecond

// arrives wakes a claim at once if all that it names is there, and in a moment if not. What comes meanwhile wakes it.
func (c *Controller) arrives(claim *v1alpha1.ResourceClaim) {
	_, noDatastore := c.datastores.Datastores(claim.Namespace).Get(claim.Spec.Datastore)
	_, noWorkspace := c.workspaces.Workspaces(claim.Namespace).Get(claim.Spec.Workspace)
	if key := cache.MetaObjectToName(claim); claim.Status.ObservedGeneration > 0 || (noDatastore == nil && noWorkspace == nil) {
		c.queue.Add(key)
	} else {
		c.queue.AddAfter(key, arrival)
	}
}

// claimHandler wakes a claim and its rivals: those for the same workspace and datastore, of which the latest wins.
func (c *Controller) claimHandler() cache.TypedResourceEventHandler[*v1alpha1.ResourceClaim] {
	wake := func(claim *v1alpha1.ResourceClaim) {
		for _, other := range c.find(index.ClaimsByWorkspace, claim.Namespace, claim.Spec.Workspace) {
			if other.Spec.Datastore == claim.Spec.Datastore {
				c.arrives(other)
			}
		}
	}
	return cache.TypedResourceEventHandlerFuncs[*v1alpha1.ResourceClaim]{
		AddFunc: wake,
		UpdateFunc: func(old, cur *v1alpha1.ResourceClaim) {
			changed := old.UID != cur.UID || old.Generation != cur.Generation || (old.DeletionTimestamp == nil) != (cur.DeletionTimestamp == nil)
			rotate := old.Annotations[v1alpha1.AnnotationRotateCredentials] != cur.Annotations[v1alpha1.AnnotationRotateCredentials]
			// Of what is compared our own writes change the finalizers only. A user's change may arrive together with them.
			echo := c.memory.Echo(cache.MetaObjectToName(cur), cur.ResourceVersion)
			switch {
			case changed:
				wake(old)
				wake(cur)
			case rotate, !echo && !slices.Equal(old.Finalizers, cur.Finalizers):
				c.queue.Add(cache.MetaObjectToName(cur))
			}
		},
		DeleteFunc: func(claim cache.DeletedObject[*v1alpha1.ResourceClaim]) {
			if claim.OptionalObj != nil {
				wake(claim.OptionalObj)
			}
			c.queue.Add(claim.GetObjectName())
		},
	}
}

// wakeClaims wakes the claims for a datastore.
func (c *Controller) wakeClaims(ds *v1alpha1.Datastore) {
	c.wakeAll(index.ClaimsByDatastore, ds.Namespace, ds.Name)
}

// datastoreHandler wakes the claims for a datastore whose owner changed whom it trusts or lets in.
func (c *Controller) datastoreHandler() cache.TypedResourceEventHandler[*v1alpha1.Datastore] {
	return cache.TypedResourceEventHandlerDetailedFuncs[*v1alpha1.Datastore]{
		AddFunc: func(ds *v1alpha1.Datastore, initial bool) {
			if !initial { // every claim wakes at the start anyway
				c.wakeClaims(ds)
			}
		},
		UpdateFunc: func(old, cur *v1alpha1.Datastore) {
			if old.UID != cur.UID || old.Generation != cur.Generation || (old.DeletionTimestamp == nil) != (cur.DeletionTimestamp == nil) {
				c.wakeClaims(cur)
			}
		},
		DeleteFunc: func(ds cache.DeletedObject[*v1alpha1.Datastore]) {
			c.wakeAll(index.ClaimsByDatastore, ds.GetNamespace(), ds.GetName())
		},
	}
}

// secretHandler wakes the claim whose own login somebody changed, the claims for a datastore whose credentials have come or changed, and the
// claims of a workspace that was handed other credentials.
func (c *Controller) secretHandler() cache.TypedResourceEventHandler[*corev1.Secret] {
	wake := func(secret *corev1.Secret) {
		switch owner := metav1.GetControllerOfNoCopy(secret); {
		case owner == nil:
			if workspace := secret.Annotations[v1alpha1.AnnotationWorkspaceName]; secret.Name == names.Credentials(workspace) {
				c.wakeReplaced(secret.Namespace, workspace)
			}
		case owner.Kind == "ResourceClaim" && secret.Labels[v1alpha1.LabelClaim] != "":
			if key := cache.NewObjectName(secret.Namespace, owner.Name); !c.memory.Echo(key, secret.ResourceVersion) {
				c.queue.Add(key)
			}
		case owner.Kind == "Datastore" && secret.Labels[v1alpha1.LabelDatastore] != "":
			c.wakeLogins(secret.Namespace, owner.Name)
		}
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*corev1.Secret]{
		AddFunc: func(secret *corev1.Secret, initial bool) {
			if !initial { // every claim wakes at the start anyway
				wake(secret)
			}
		},
		UpdateFunc: func(_, cur *corev1.Secret) { wake(cur) },
		DeleteFunc: func(secret cache.DeletedObject[*corev1.Secret]) {
			if secret.OptionalObj != nil {
				wake(secret.OptionalObj)
			}
		},
	}
}

// wakeLogins wakes the claims for a datastore that have or want logins of their own.
func (c *Controller) wakeLogins(namespace, datastore string) {
	ds, err := c.datastores.Datastores(namespace).Get(datastore)
	each := err == nil && resourceclaim.PerClaim(ds)
	for _, claim := range c.find(index.ClaimsByDatastore, namespace, datastore) {
		if each || resourceclaim.HasLogin(claim) {
			c.queue.Add(cache.MetaObjectToName(claim))
		}
	}
}

// batch is how long the steps of a rollout are collected.
const batch = 100 * time.Millisecond

// deploymentHandler wakes the claims with logins of their own whose workspace has got ahead with a rollout.
func (c *Controller) deploymentHandler() cache.TypedResourceEventHandler[*appsv1.Deployment] {
	wake := func(deployment *appsv1.Deployment) {
		if owner := metav1.GetControllerOfNoCopy(deployment); owner != nil && owner.Kind == "Workspace" {
			c.wakeReplaced(deployment.Namespace, owner.Name)
		}
	}
	return cache.TypedResourceEventHandlerFuncs[*appsv1.Deployment]{
		UpdateFunc: func(old, cur *appsv1.Deployment) {
			if old.Generation != cur.Generation || !equality.Semantic.DeepEqual(old.Status, cur.Status) {
				wake(cur)
			}
		},
		DeleteFunc: func(deployment cache.DeletedObject[*appsv1.Deployment]) {
			if deployment.OptionalObj != nil {
				wake(deployment.OptionalObj)
			}
		},
	}
}

// wakeReplaced wakes the claims of a workspace that have logins of their own, one of which may be in the way of nobody any more.
func (c *Controller) wakeReplaced(namespace, workspace string) {
	for _, claim := range c.find(index.ClaimsByWorkspace, namespace, workspace) {
		if resourceclaim.HasLogin(claim) {
			c.queue.AddAfter(cache.MetaObjectToName(claim), batch)
		}
	}
}

// workspaceHandler wakes the claims for a workspace that has come or gone.
func (c *Controller) workspaceHandler() cache.TypedResourceEventHandler[*v1alpha1.Workspace] {
	return cache.TypedResourceEventHandlerDetailedFuncs[*v1alpha1.Workspace]{
		AddFunc: func(ws *v1alpha1.Workspace, initial bool) {
			if !initial { // every claim wakes at the start anyway
				c.wakeAll(index.ClaimsByWorkspace, ws.Namespace, ws.Name)
			}
		},
		DeleteFunc: func(ws cache.DeletedObject[*v1alpha1.Workspace]) {
			c.wakeAll(index.ClaimsByWorkspace, ws.GetNamespace(), ws.GetName())
		},
	}
}

func (c *Controller) wakeAll(indexName, namespace, name string) {
	for _, claim := range c.find(indexName, namespace, name) {
		c.arrives(claim)
	}
}

func (c *Controller) find(indexName, namespace, name string) []*v1alpha1.ResourceClaim {
	claims, err := c.claimIndex.ByTypedIndex(indexName, index.Key(namespace, name))
	if err != nil {
		return nil // the index is always there
	}
	return claims
}

// enqueueAll is for a change of the owners' keys, which is rare.
func (c *Controller) enqueueAll() {
	all, err := c.claims.List(labels.Everything())
	if err != nil {
		return // a cache never fails
	}
	for _, claim := range all {
		c.queue.Add(cache.MetaObjectToName(claim))
	}
}
