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
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	formspecac "github.com/formspec/formspec-operator/pkg/generated/applyconfiguration/formspec/v1alpha1"
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
	version, refused := c.execute(ctx, key, in, plan)
	after := plan.After
	switch in.Refusal = apply.Refusal(refused); {
	case version == gone:
		c.restarts.Gone(key)
		return 0, nil
	case in.Refusal != nil:
		plan.Status, after = workspace.Status(*in, plan), apply.RefusalRetry
		refused = worker.Terminal(refused)
	case refused != nil:
		return 0, refused // a fault that passes says nothing about the Workspace
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

// gone as a resourceVersion says that the Workspace is no more.
const gone = "gone"

// execute carries out the plan, up to the first write that fails. It returns the Workspace's newest resourceVersion.
func (c *Controller) execute(ctx context.Context, key cache.ObjectName, in *workspace.Input, plan workspace.Plan) (version string, err error) {
	version = in.Workspace.ResourceVersion
	if plan.Finalizer == reconcile.FinalizerAdd {
		if version, err = c.addFinalizer(ctx, key, in.Workspace); err != nil {
			return version, err
		}
	}
	owns := func(object metav1.Object) bool { return workspace.Owns(in.Workspace, object) }
	for _, write := range plan.Apply {
		if err := c.apply(ctx, key, write, owns); err != nil {
			return version, err
		}
	}
	for _, child := range plan.Delete {
		klog.FromContext(ctx).V(2).Info("Deleting child", "workspace", key, "kind", child.Kind, "name", child.Name)
		if err := c.writer.Delete(ctx, key.Namespace, child); err != nil {
			return version, err
		}
	}
	if plan.Finalizer == reconcile.FinalizerRemove {
		return c.removeFinalizer(ctx, key, in.Workspace)
	}
	return version, nil
}

func (c *Controller) apply(ctx context.Context, key cache.ObjectName, write reconcile.Write, owns func(metav1.Object) bool) error {
	kind, name := ptr.Deref(write.Config.GetKind(), ""), ptr.Deref(write.Config.GetName(), "")
	klog.FromContext(ctx).V(2).Info("Applying child", "workspace", key, "kind", kind, "name", name, "create", write.Create)
	result, err := c.writer.Apply(ctx, write, owns)
	if err != nil {
		return err
	}
	c.memory.Rewrote(key, write.Config, result.Rewritten, c.clock.Now())
	if r := c.memory.Rewritten(key, kind, name); r == nil || !r.Hidden() { // else the cache will never see it
		c.memory.Wrote(key, c.stores[kind], result.ResourceVersion)
	}
	if result.Existed {
		c.enqueue(key, soon) // the event of a write wakes nobody, and this one brings the child's status, too
	}
	return nil
}

func (c *Controller) addFinalizer(ctx context.Context, key cache.ObjectName, ws *v1alpha1.Workspace) (version string, err error) {
	api := c.formspec.FormspecV1alpha1().Workspaces(key.Namespace)
	written, err := apply.AddFinalizer(ctx, api, Name,
		formspecac.Workspace(ws.Name, ws.Namespace).WithUID(ws.UID).WithFinalizers(v1alpha1.WorkspaceFinalizer))
	if err != nil {
		return ws.ResourceVersion, err
	}
	c.memory.Wrote(key, c.stores["Workspace"], written.ResourceVersion)
	return written.ResourceVersion, nil
}

func (c *Controller) removeFinalizer(ctx context.Context, key cache.ObjectName, ws *v1alpha1.Workspace) (version string, err error) {
	api := c.formspec.FormspecV1alpha1().Workspaces(key.Namespace)
	written, vanished, err := apply.RemoveFinalizer(ctx, api, Name, v1alpha1.WorkspaceFinalizer, ws)
	if err != nil {
		return ws.ResourceVersion, err
	}
	if vanished {
		return gone, nil
	}
	c.memory.Wrote(key, c.stores["Workspace"], written.ResourceVersion)
	return written.ResourceVersion, nil
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
		return c.apply(ctx, key, *write, func(metav1.Object) bool { return false })
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
