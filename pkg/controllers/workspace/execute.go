// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	formspecac "github.com/formspec/formspec-operator/pkg/generated/applyconfiguration/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// gone as a resourceVersion says that the Workspace is no more.
const gone = "gone"

// execute carries out the plan and returns the Workspace's newest resourceVersion. A write that is refused holds up what depends on it and
// nothing else: the plan is made again without it, and becomes the one that was carried out. What any other fault leaves undone the next
// sync does. The error is nil, that fault, or all refusals; of these the Input has the first.
func (c *Controller) execute(ctx context.Context, key cache.ObjectName, in *workspace.Input, plan *workspace.Plan) (version string, err error) {
	version = in.Workspace.ResourceVersion
	var refusals []error
	refused := func(err error, kind, name string) bool {
		refusal := apply.Refusal(err)
		if refusal == nil {
			return false
		}
		refusals = append(refusals, err)
		if in.Refusal == nil || refusal.Reason == v1alpha1.ReasonNameConflict {
			in.Refusal = refusal
		}
		in.Refused = append(in.Refused, workspace.Refused{Kind: kind, Name: name})
		*plan = workspace.Make(*in)
		return true
	}
	if plan.Finalizer == reconcile.FinalizerAdd {
		if version, err = c.addFinalizer(ctx, key, in.Workspace); err != nil && !refused(err, "Workspace", key.Name) {
			return version, err
		}
	}
	owns := func(object metav1.Object) bool { return workspace.Owns(in.Workspace, object) }
	var sent []reconcile.Write
	for pending := plan.Apply; len(pending) > 0; {
		write := pending[0]
		pending, sent = pending[1:], append(sent, write)
		if err := c.apply(ctx, key, in.Workspace.UID, write, owns); err == nil {
			continue
		} else if !refused(err, *write.Config.GetKind(), *write.Config.GetName()) {
			return version, err
		}
		pending = unsent(plan.Apply, sent)
	}
	for _, child := range slices.Clone(plan.Delete) {
		klog.FromContext(ctx).V(2).Info("Deleting child", "workspace", key, "kind", child.Kind, "name", child.Name)
		if err := c.writer.Delete(ctx, key.Namespace, child); err != nil && !refused(err, child.Kind, child.Name) {
			return version, err
		}
	}
	if plan.Finalizer == reconcile.FinalizerRemove && len(refusals) == 0 {
		if version, err = c.removeFinalizer(ctx, key, in.Workspace); err != nil && !refused(err, "Workspace", key.Name) {
			return version, err
		}
	}
	return version, errors.Join(refusals...)
}

// unsent is what of the writes was not sent yet as it is.
func unsent(writes, sent []reconcile.Write) []reconcile.Write {
	return slices.DeleteFunc(slices.Clone(writes), func(write reconcile.Write) bool {
		content := reconcile.Fingerprint(write.Config) // has kind and name
		return slices.ContainsFunc(sent, func(s reconcile.Write) bool { return reconcile.Fingerprint(s.Config) == content })
	})
}

func (c *Controller) apply(ctx context.Context, key cache.ObjectName, uid types.UID, write reconcile.Write, owns func(metav1.Object) bool) error {
	kind, name := ptr.Deref(write.Config.GetKind(), ""), ptr.Deref(write.Config.GetName(), "")
	klog.FromContext(ctx).V(2).Info("Applying child", "workspace", key, "kind", kind, "name", name, "create", write.Create)
	result, err := c.memory.Send(key, uid, write, func() (apply.Result, error) { return c.writer.Apply(ctx, write, owns) })
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
