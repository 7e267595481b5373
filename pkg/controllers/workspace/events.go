// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

type (
	workspaceIndexer = cache.TypedIndexer[*v1alpha1.Workspace]
	podIndexer       = cache.TypedIndexer[*corev1.Pod]
	sliceIndexer     = cache.TypedIndexer[*discoveryv1.EndpointSlice]
)

// podsByLabel finds the pods of a Workspace.
const podsByLabel = v1alpha1.LabelWorkspace

// slicesByService finds the EndpointSlices of a Service.
const slicesByService = discoveryv1.LabelServiceName

func addIndexes(config Config) error {
	var errs []error
	for _, workspaces := range config.Rivals {
		errs = append(errs, index.Workspaces(workspaces.TypedInformer()))
	}
	return errors.Join(
		errors.Join(errs...),
		index.Workspaces(config.Workspaces.TypedInformer()),
		config.EndpointSlices.TypedInformer().AddTypedIndexers(cache.TypedIndexers[*discoveryv1.EndpointSlice]{
			slicesByService: func(slice *discoveryv1.EndpointSlice) ([]string, error) {
				return []string{index.Key(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])}, nil
			},
		}),
		index.Claims(config.Claims.TypedInformer()),
		index.Datastores(config.Datastores.TypedInformer()),
		config.Pods.TypedInformer().AddTypedIndexers(cache.TypedIndexers[*corev1.Pod]{
			podsByLabel: func(pod *corev1.Pod) ([]string, error) {
				return []string{index.Key(pod.Namespace, pod.Labels[v1alpha1.LabelWorkspace])}, nil
			},
		}))
}

// batch is how long changes that others make to our children are collected, because they come in groups: a rollout moves the Deployment
// and each of its pods. What a user does is looked at immediately.
const batch = 100 * time.Millisecond

// urgency is how soon a change of an object is looked at.
type urgency int

const (
	never urgency = iota
	soon
	now
)

func (c *Controller) enqueue(key cache.ObjectName, u urgency) {
	switch u {
	case now:
		c.queue.Add(key)
	case soon:
		c.queue.AddAfter(key, batch)
	}
}

func (c *Controller) workspaceHandler() cache.TypedResourceEventHandler[*v1alpha1.Workspace] {
	return cache.TypedResourceEventHandlerFuncs[*v1alpha1.Workspace]{
		AddFunc: func(ws *v1alpha1.Workspace) {
			c.ledger.LineUp(ws)
			c.enqueue(cache.MetaObjectToName(ws), now)
		},
		UpdateFunc: func(old, cur *v1alpha1.Workspace) {
			switch {
			case old.UID != cur.UID: // the informer missed that it was deleted and created again
				c.leaves(old)
				c.ledger.LineUp(cur)
			case old.Generation != cur.Generation:
				c.ledger.LineUp(cur)
			default:
				c.ledger.Observe(cur)
			}
			key := cache.MetaObjectToName(cur)
			// Of what is compared our own writes change the finalizers only. A user's change may arrive together with them.
			echo := c.memory.Echo(key, cur.ResourceVersion)
			if metadataChanged(old, cur) || (!echo && !slices.Equal(old.Finalizers, cur.Finalizers)) {
				c.enqueue(key, now)
			}
		},
		DeleteFunc: func(ws cache.DeletedObject[*v1alpha1.Workspace]) {
			if ws.OptionalObj != nil {
				c.leaves(ws.OptionalObj)
			}
			c.enqueue(ws.GetObjectName(), now)
		},
	}
}

// leaves gives back the slot of a Workspace that is gone, unless its Deployment is still there.
func (c *Controller) leaves(ws *v1alpha1.Workspace) {
	if !c.runs(ws) {
		c.ledger.Release(ws.UID)
	}
}

// runs says whether the Deployment of a Workspace is still there, ending or not.
func (c *Controller) runs(ws *v1alpha1.Workspace) bool {
	deployment, err := c.deployments.Deployments(ws.Namespace).Get(names.Deployment(ws.Name))
	return err == nil && metav1.IsControlledBy(deployment, ws)
}

// deploymentHandler also gives back the slot of a Workspace that went before its Deployment did, or before that was orphaned.
func (c *Controller) deploymentHandler() cache.TypedResourceEventHandler[*appsv1.Deployment] {
	handler := childHandler(c, deploymentUrgency)
	release := func(deployment *appsv1.Deployment) {
		owner := metav1.GetControllerOfNoCopy(deployment)
		if _, alive := c.owner(deployment); owner != nil && !alive {
			c.ledger.Release(owner.UID)
		}
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*appsv1.Deployment]{
		AddFunc: handler.OnAdd,
		UpdateFunc: func(old, cur *appsv1.Deployment) {
			if was := metav1.GetControllerOfNoCopy(old); was != nil {
				if is := metav1.GetControllerOfNoCopy(cur); is == nil || is.UID != was.UID {
					release(old)
				}
			}
			handler.OnUpdate(old, cur)
		},
		DeleteFunc: func(deployment cache.DeletedObject[*appsv1.Deployment]) {
			if deployment.OptionalObj != nil {
				release(deployment.OptionalObj)
			}
			handler.OnDelete(deployment)
		},
	}
}

// SlotFreed wakes a Workspace that waited for a slot of its class.
func (c *Controller) SlotFreed(key cache.ObjectName) {
	if _, err := c.workspaces.Workspaces(key.Namespace).Get(key.Name); err == nil {
		c.enqueue(key, now)
	}
}

// RestartRequested wakes a Workspace whose pods have to be restarted. False: there is no such Workspace here.
func (c *Controller) RestartRequested(key cache.ObjectName) bool {
	if _, err := c.workspaces.Workspaces(key.Namespace).Get(key.Name); err != nil {
		return false
	}
	c.enqueue(key, now)
	return true
}

// HoldersChanged is for the loop of ClusterClasses.
func (c *Controller) HoldersChanged(string) {}

// classHandler wakes every Workspace of a class whose spec changed.
func (c *Controller) classHandler() cache.TypedResourceEventHandler[*v1alpha1.ClusterClass] {
	fanOut := func(class string) {
		workspaces, err := c.workspaceIndex.ByTypedIndex(index.WorkspacesByClass, class)
		if err != nil {
			return // the index is always there
		}
		for _, ws := range workspaces { // all of them before the first asks, so that the oldest is first
			c.ledger.LineUp(ws)
		}
		for _, ws := range workspaces {
			c.enqueue(cache.MetaObjectToName(ws), now)
			c.wakeRivals(ws.Spec.Hosts)
		}
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*v1alpha1.ClusterClass]{
		AddFunc: func(class *v1alpha1.ClusterClass, initial bool) {
			if !initial { // every Workspace wakes at the start anyway
				fanOut(class.Name)
			}
		},
		UpdateFunc: func(old, cur *v1alpha1.ClusterClass) {
			if old.UID != cur.UID || old.Generation != cur.Generation ||
				old.Labels[v1alpha1.LabelRegion] != cur.Labels[v1alpha1.LabelRegion] {
				fanOut(cur.Name)
			}
		},
		DeleteFunc: func(class cache.DeletedObject[*v1alpha1.ClusterClass]) { fanOut(class.GetName()) },
	}
}
