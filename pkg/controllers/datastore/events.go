// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

func addIndexes(config Config) error {
	return errors.Join(index.Datastores(config.Datastores.TypedInformer()), index.Claims(config.Claims.TypedInformer()))
}

// batch is how long changes in the claims of a datastore are collected: a burst of them is one write and not one each.
const batch = time.Second

func (c *Controller) datastoreHandler() cache.TypedResourceEventHandler[*v1alpha1.Datastore] {
	return cache.TypedResourceEventHandlerFuncs[*v1alpha1.Datastore]{
		AddFunc: func(ds *v1alpha1.Datastore) { c.queue.Add(cache.MetaObjectToName(ds)) },
		UpdateFunc: func(old, cur *v1alpha1.Datastore) {
			changed := old.UID != cur.UID || old.Generation != cur.Generation || (old.DeletionTimestamp == nil) != (cur.DeletionTimestamp == nil) ||
				old.Annotations[v1alpha1.AnnotationUndecodable] != cur.Annotations[v1alpha1.AnnotationUndecodable]
			// Of what is compared our own writes change the finalizers only. A user's change may arrive together with them.
			key := cache.MetaObjectToName(cur)
			echo := c.memory.Echo(key, cur.ResourceVersion)
			if changed || (!echo && !slices.Equal(old.Finalizers, cur.Finalizers)) {
				c.queue.Add(key)
			}
		},
		DeleteFunc: func(ds cache.DeletedObject[*v1alpha1.Datastore]) { c.queue.Add(ds.GetObjectName()) },
	}
}

// claimHandler wakes the datastore whose claims were approved, withdrawn or changed in size.
func (c *Controller) claimHandler() cache.TypedResourceEventHandler[*v1alpha1.ResourceClaim] {
	wake := func(claim *v1alpha1.ResourceClaim) {
		c.queue.AddAfter(cache.NewObjectName(claim.Namespace, claim.Spec.Datastore), batch)
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*v1alpha1.ResourceClaim]{
		AddFunc: func(claim *v1alpha1.ResourceClaim, initial bool) {
			if !initial && approved(claim) {
				wake(claim)
			}
		},
		UpdateFunc: func(old, cur *v1alpha1.ResourceClaim) {
			switch {
			case resourceclaim.HasLogin(old) != resourceclaim.HasLogin(cur): // not in a batch: the login is about to be made, or somebody waits for its end
				c.queue.Add(cache.NewObjectName(cur.Namespace, cur.Spec.Datastore))
			case approved(old) != approved(cur) || old.Generation != cur.Generation:
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

// approved says whether the claim is in force, which in an outage of the owners' keys is not the same as Ready.
func approved(claim *v1alpha1.ResourceClaim) bool {
	return meta.IsStatusConditionFalse(claim.Status.Conditions, v1alpha1.ConditionDenied)
}

// managedHandler wakes the owner of a managed Secret that somebody else changed.
func (c *Controller) managedHandler() cache.TypedResourceEventHandler[*corev1.Secret] {
	wake := func(secret *corev1.Secret) {
		owner := metav1.GetControllerOfNoCopy(secret)
		if secret.Labels[v1alpha1.LabelDatastore] == "" || owner == nil || owner.Kind != "Datastore" {
			return
		}
		if key := cache.NewObjectName(secret.Namespace, owner.Name); !c.memory.Echo(key, secret.ResourceVersion) {
			c.queue.Add(key)
		}
	}
	return cache.TypedResourceEventHandlerFuncs[*corev1.Secret]{
		UpdateFunc: func(_, cur *corev1.Secret) { wake(cur) },
		DeleteFunc: func(secret cache.DeletedObject[*corev1.Secret]) {
			if secret.OptionalObj != nil {
				wake(secret.OptionalObj)
			}
		},
	}
}

// sourceHandler wakes the datastores whose endpoint Secret has come, changed or gone.
func (c *Controller) sourceHandler() cache.TypedResourceEventHandler[*metav1.PartialObjectMetadata] {
	wake := func(source *metav1.PartialObjectMetadata) {
		datastores, err := c.datastoreIndex.ByTypedIndex(index.DatastoresBySecret, index.Key(source.Namespace, source.Name))
		if err != nil {
			return // the index is always there
		}
		for _, ds := range datastores {
			c.queue.Add(cache.MetaObjectToName(ds))
		}
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*metav1.PartialObjectMetadata]{
		AddFunc: func(source *metav1.PartialObjectMetadata, initial bool) {
			if !initial { // every Datastore wakes at the start anyway
				wake(source)
			}
		},
		UpdateFunc: func(_, cur *metav1.PartialObjectMetadata) { wake(cur) },
		DeleteFunc: func(source cache.DeletedObject[*metav1.PartialObjectMetadata]) {
			if source.OptionalObj != nil {
				wake(source.OptionalObj)
			}
		},
	}
}

// enqueueAll is for a change of the owners' keys, which is rare.
func (c *Controller) enqueueAll() {
	all, err := c.datastores.List(labels.Everything())
	if err != nil {
		return // a cache never fails
	}
	for _, ds := range all {
		c.queue.Add(cache.MetaObjectToName(ds))
	}
}
