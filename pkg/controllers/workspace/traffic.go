// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"fmt"
	"strconv"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// staleLease is how soon a Workspace is looked at again whose Lease turned out to be newer than the cache.
const staleLease = time.Second

// traffic gathers what is known of the requests to a Workspace that may sleep, or whose requests still pass the activator.
func (c *Controller) traffic(in *workspace.Input) {
	scalesToZero := in.Class != nil && in.Class.Spec.Scaling.ScaleToZero
	if c.activity == nil || !scalesToZero && !in.Children.Slice.Exists() {
		return
	}
	in.Traffic = c.activity.Of(in.Workspace.UID, attempt(in))
	if in.Unwatched() {
		c.activity.Unwatched(in.Workspace.UID)
		in.Traffic.Quiet = 0
	}
}

// attempt is what people change to make a wake work that has failed.
func attempt(in *workspace.Input) string {
	if in.Class == nil {
		return strconv.FormatInt(in.Workspace.Generation, 10)
	}
	return fmt.Sprintf("%d of %s %d", in.Workspace.Generation, in.Class.UID, in.Class.Generation)
}

// learn remembers whether a wake has failed or was worth it.
func (c *Controller) learn(in *workspace.Input, plan workspace.Plan) {
	ready := meta.FindStatusCondition(plan.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c.activity == nil || in.Class == nil || ready == nil:
	case plan.FallsAsleep && ready.Reason == v1alpha1.ReasonWakeFailed:
		c.activity.WakeFailed(in.Workspace.UID, attempt(in))
	case ready.Reason == v1alpha1.ReasonAvailable:
		c.activity.Woke(in.Workspace.UID)
	}
}

// stillQuiet asks the API server whether the Lease is the one that the decision to sleep was made from. A watch may be behind, and nobody
// who has a request in flight is put to sleep.
func (c *Controller) stillQuiet(ctx context.Context, in *workspace.Input) (bool, error) {
	lease, err := c.client.CoordinationV1().Leases(v1alpha1.ActivatorNamespace).Get(ctx, string(in.Workspace.UID), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("get the activity Lease of Workspace %s/%s: %w", in.Workspace.Namespace, in.Workspace.Name, err)
	case lease.ResourceVersion == in.Traffic.Lease:
		return true, nil
	default:
		c.activity.Touch(in.Workspace.UID)
		return false, nil
	}
}

// Active wakes the Workspace of a Lease that has changed, if it sleeps. One that is awake notices when its window is over.
func (c *Controller) Active(uid types.UID) {
	workspaces, err := c.workspaceIndex.ByTypedIndex(index.WorkspacesByUID, string(uid))
	if err != nil {
		return // the index is always there
	}
	for _, ws := range workspaces {
		deployment, err := c.deployments.Deployments(ws.Namespace).Get(names.Deployment(ws.Name))
		if err == nil && workspace.Sleeps(deployment) {
			c.enqueue(cache.MetaObjectToName(ws), now)
		}
	}
}

// ActivatorsChanged wakes the Workspaces whose requests pass the activator, or could.
func (c *Controller) ActivatorsChanged() {
	for _, object := range c.workspaceIndex.List() {
		ws, ok := object.(*v1alpha1.Workspace)
		if !ok {
			continue
		}
		class, err := c.classes.Get(ws.Spec.ClusterClass)
		if err == nil && class.Spec.Scaling.ScaleToZero || c.routesToActivator(ws) {
			c.enqueue(cache.MetaObjectToName(ws), soon)
		}
	}
}

func (c *Controller) routesToActivator(ws *v1alpha1.Workspace) bool {
	_, err := c.endpointSlices.EndpointSlices(ws.Namespace).Get(names.Activator(ws.Name))
	return err == nil
}

// theirs are the EndpointSlices that Kubernetes' own controllers made for the Workspace's Service. They carry the labels of the Service.
func (c *Controller) theirs(key cache.ObjectName) ([]*discoveryv1.EndpointSlice, error) {
	all, err := c.sliceIndex.ByTypedIndex(slicesByService, index.Key(key.Namespace, names.Deployment(key.Name)))
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Workspace %s: %w", key, err)
	}
	var found []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if madeByKubernetes(slice) {
			found = append(found, slice)
		}
	}
	return found, nil
}

func madeByKubernetes(slice *discoveryv1.EndpointSlice) bool {
	switch slice.Labels[discoveryv1.LabelManagedBy] {
	case "endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io":
		return true
	default:
		return false
	}
}

// sliceHandler wakes the Workspace of our own slice like that of any child. Others matter while ours is there: on the way to the activator
// they have to go, and on the way back ours goes when one has a ready endpoint.
func (c *Controller) sliceHandler() cache.TypedResourceEventHandler[*discoveryv1.EndpointSlice] {
	own := childHandler(c, anyChange[*discoveryv1.EndpointSlice])
	other := func(slice *discoveryv1.EndpointSlice) {
		workspaces, err := c.workspaceIndex.ByTypedIndex(index.WorkspacesByLabel, index.Key(slice.Namespace, slice.Labels[v1alpha1.LabelWorkspace]))
		if err != nil || !madeByKubernetes(slice) {
			return
		}
		for _, ws := range workspaces {
			if slice.Labels[discoveryv1.LabelServiceName] == names.Deployment(ws.Name) && c.routesToActivator(ws) {
				c.enqueue(cache.MetaObjectToName(ws), soon)
			}
		}
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*discoveryv1.EndpointSlice]{
		AddFunc: func(slice *discoveryv1.EndpointSlice, initial bool) {
			if own.OnAdd(slice, initial); !initial {
				other(slice)
			}
		},
		UpdateFunc: func(old, cur *discoveryv1.EndpointSlice) {
			if own.OnUpdate(old, cur); !equality.Semantic.DeepEqual(old.Endpoints, cur.Endpoints) {
				other(cur)
			}
		},
		DeleteFunc: own.OnDelete,
	}
}
