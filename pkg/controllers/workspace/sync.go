// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// sync brings one Workspace to what it should be.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if c.memory.Stale(key) {
		return 0, worker.ErrStale
	}
	in, err := c.gather(key)
	if err != nil {
		return 0, err
	}
	if in == nil {
		return 0, c.vanished(ctx, key)
	}
	c.admit(in)
	plan := workspace.Make(*in)
	if plan.FallsAsleep {
		if quiet, err := c.stillQuiet(ctx, in); err != nil || !quiet {
			return staleLease, err
		}
	}
	if len(plan.Apply) > 0 && workspace.Orphaned(*in) {
		if err := c.stillWanted(ctx, in.Workspace); err != nil {
			return 0, err
		}
	}
	version, err := c.execute(ctx, key, in, &plan)
	after, refused := plan.After, err
	switch {
	case version == gone:
		c.restarts.Gone(key)
		return 0, nil
	case err != nil && apply.Refusal(err) == nil:
		return 0, err // a fault that passes says nothing about the Workspace
	case err != nil:
		after, refused = reconcile.Sooner(apply.RefusalRetry, in.Recheck), worker.Terminal(err) // a grant ends when it ends
	}
	c.learn(in, plan)
	if err := c.updateStatus(ctx, key, in.Workspace, version, plan.Status); err != nil {
		return 0, err
	}
	if artifact := plan.Status.Artifact; artifact != nil {
		c.restarts.Recorded(key, artifact.Cursor)
	}
	return after, refused
}

// admit asks the ledger for a slot, before the first child is written.
func (c *Controller) admit(in *workspace.Input) {
	switch {
	case in.Workspace.DeletionTimestamp != nil:
	case workspace.Evicted(*in):
		c.ledger.Release(in.Workspace.UID)
	case workspace.Candidate(*in):
		c.ledger.Enter(in.Workspace, in.Class)
	default:
		c.ledger.Withdraw(in.Workspace)
	}
	in.Admitted = c.ledger.Held(in.Workspace.UID)
}

// stillWanted asks the API server whether the Workspace may take its children in again. An orphaning deletion gives them up one by one, and
// who took one back then would hand it to the garbage collector.
func (c *Controller) stillWanted(ctx context.Context, cached *v1alpha1.Workspace) error {
	ws, err := c.formspec.FormspecV1alpha1().Workspaces(cached.Namespace).Get(ctx, cached.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (ws.UID != cached.UID || ws.DeletionTimestamp != nil):
		return worker.ErrStale
	case err != nil:
		return fmt.Errorf("get Workspace %s/%s before it takes its children in again: %w", cached.Namespace, cached.Name, err)
	}
	return nil
}

// updateStatus writes the status if it differs, and then tells what changed.
func (c *Controller) updateStatus(ctx context.Context, key cache.ObjectName, ws *v1alpha1.Workspace, version string, status v1alpha1.WorkspaceStatus) error {
	if equality.Semantic.DeepEqual(ws.Status, status) {
		return nil
	}
	update := ws.DeepCopy()
	update.ResourceVersion, update.Status = version, status
	written, err := c.formspec.FormspecV1alpha1().Workspaces(key.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: Name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status of Workspace %s: %w", key, err)
	}
	c.memory.Wrote(key, c.stores["Workspace"], written.ResourceVersion)
	for _, event := range condition.Events(ws.Status.Conditions, status.Conditions) {
		klog.FromContext(ctx).V(2).Info("Workspace changed", "workspace", key, "reason", event.Reason, "message", event.Note)
		c.recorder.Eventf(ws, nil, event.Type, event.Reason, event.Action, "%s", event.Note)
	}
	return nil
}

// vanished marks the credentials Secret of a Workspace that went while nobody held its finalizer.
func (c *Controller) vanished(ctx context.Context, key cache.ObjectName) error {
	c.memory.Forget(key)
	c.restarts.Gone(key)
	secret, err := c.credentials(key)
	if err != nil {
		return err
	}
	if write := workspace.Retain(key.Name, secret); write != nil {
		return c.apply(ctx, key, "", *write, func(metav1.Object) bool { return false })
	}
	return nil
}

// crashed shows a panic on the Workspace. The log has the stack.
func (c *Controller) crashed(ctx context.Context, key cache.ObjectName) {
	ws, err := c.workspaces.Workspaces(key.Namespace).Get(key.Name)
	if err != nil {
		return
	}
	status := *ws.Status.DeepCopy()
	status.ObservedGeneration = ws.Generation
	status.Conditions = condition.InternalError(status.Conditions, ws.Generation, c.clock.Now())
	if err := c.updateStatus(ctx, key, ws, ws.ResourceVersion, status); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot show the panic", "workspace", key)
	}
}
