// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"errors"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
)

type workspaceIndexer = cache.TypedIndexer[*v1alpha1.Workspace]

func addIndexes(config Config) error {
	var errs []error
	for _, workspaces := range config.Workspaces {
		errs = append(errs, index.Workspaces(workspaces.TypedInformer()))
	}
	return errors.Join(errs...)
}

// batch is how long changes in the number of Workspaces are collected: a burst of them is a few writes and not one each. Nothing is
// decided by these numbers.
const batch = 5 * time.Second

// soon wakes a class whose numbers have changed.
func (c *Controller) soon(class string) {
	if class != "" {
		c.queue.AddAfter(cache.NewObjectName("", class), batch)
	}
}

func (c *Controller) classHandler() cache.TypedResourceEventHandler[*v1alpha1.ClusterClass] {
	return cache.TypedResourceEventHandlerFuncs[*v1alpha1.ClusterClass]{
		AddFunc: func(class *v1alpha1.ClusterClass) { c.queue.Add(cache.MetaObjectToName(class)) },
		UpdateFunc: func(old, cur *v1alpha1.ClusterClass) {
			changed := old.UID != cur.UID || old.Generation != cur.Generation || (old.DeletionTimestamp == nil) != (cur.DeletionTimestamp == nil)
			// Of what is compared our own writes change the finalizers only. A user's change may arrive together with them.
			key := cache.MetaObjectToName(cur)
			echo := c.memory.Echo(key, cur.ResourceVersion)
			if changed || (!echo && !slices.Equal(old.Finalizers, cur.Finalizers)) {
				c.queue.Add(key)
			}
		},
		DeleteFunc: func(class cache.DeletedObject[*v1alpha1.ClusterClass]) { c.queue.Add(class.GetObjectName()) },
	}
}

// workspaceHandler wakes the class that a Workspace names, and the one that it named before. What puts the finalizer on a class, and what
// lets a class go, does not wait for the batch.
func (c *Controller) workspaceHandler() cache.TypedResourceEventHandler[*v1alpha1.Workspace] {
	count := func(name string) {
		class, err := c.classes.Get(name)
		switch {
		case err != nil: // its own event wakes it once it is there
		case class.DeletionTimestamp != nil, !slices.Contains(class.Finalizers, v1alpha1.ClusterClassFinalizer):
			c.queue.Add(cache.NewObjectName("", name))
		default:
			c.soon(name)
		}
	}
	return cache.TypedResourceEventHandlerFuncs[*v1alpha1.Workspace]{
		AddFunc: func(ws *v1alpha1.Workspace) { count(ws.Spec.ClusterClass) },
		UpdateFunc: func(old, cur *v1alpha1.Workspace) {
			if old.Spec.ClusterClass != cur.Spec.ClusterClass {
				count(old.Spec.ClusterClass)
				count(cur.Spec.ClusterClass)
			}
		},
		DeleteFunc: func(ws cache.DeletedObject[*v1alpha1.Workspace]) {
			if ws.OptionalObj != nil {
				count(ws.OptionalObj.Spec.ClusterClass)
			}
		},
	}
}

// HoldersChanged wakes a class whose slots were taken or freed.
func (c *Controller) HoldersChanged(class string) { c.soon(class) }

// SlotFreed is for the loop of Workspaces.
func (c *Controller) SlotFreed(cache.ObjectName) {}
