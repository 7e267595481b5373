// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclass

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
	formspecac "github.com/formspec/formspec-operator/pkg/generated/applyconfiguration/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/clusterclass"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
)

// sync brings one ClusterClass to what it should be.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	if c.memory.Stale(key) {
		return 0, worker.ErrStale
	}
	in, err := c.gather(key)
	if err != nil {
		return 0, err
	}
	if in == nil {
		c.memory.Forget(key)
		return 0, nil
	}
	plan := clusterclass.Make(*in)
	version, err := c.execute(ctx, key, in.Class, plan)
	if err != nil || version == gone {
		return 0, err
	}
	return 0, c.updateStatus(ctx, key, in.Class, version, plan.Status)
}

// gone as a resourceVersion says that the ClusterClass is no more.
const gone = "gone"

// execute carries out the plan. It returns the class's newest resourceVersion.
func (c *Controller) execute(ctx context.Context, key cache.ObjectName, class *v1alpha1.ClusterClass, plan clusterclass.Plan) (version string, err error) {
	api := c.formspec.FormspecV1alpha1().ClusterClasses()
	var written *v1alpha1.ClusterClass
	var vanished bool
	switch plan.Finalizer {
	case reconcile.FinalizerAdd:
		written, err = apply.AddFinalizer(ctx, api, Name,
			formspecac.ClusterClass(key.Name).WithUID(class.UID).WithFinalizers(v1alpha1.ClusterClassFinalizer))
	case reconcile.FinalizerRemove:
		written, vanished, err = apply.RemoveFinalizer(ctx, api, Name, v1alpha1.ClusterClassFinalizer, class)
	default:
		return class.ResourceVersion, nil
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("ClusterClass %q: %w", key.Name, err)
	case vanished:
		return gone, nil
	}
	c.memory.Wrote(key, c.store, written.ResourceVersion)
	return written.ResourceVersion, nil
}

// updateStatus writes the status if it differs, and then tells what changed.
func (c *Controller) updateStatus(ctx context.Context, key cache.ObjectName, class *v1alpha1.ClusterClass, version string, status v1alpha1.ClusterClassStatus) error {
	if equality.Semantic.DeepEqual(class.Status, status) {
		return nil
	}
	update := class.DeepCopy()
	update.ResourceVersion, update.Status = version, status
	written, err := c.formspec.FormspecV1alpha1().ClusterClasses().UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: Name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status of ClusterClass %q: %w", key.Name, err)
	}
	c.memory.Wrote(key, c.store, written.ResourceVersion)
	for _, event := range condition.Events(class.Status.Conditions, status.Conditions) {
		klog.FromContext(ctx).V(2).Info("ClusterClass changed", "clusterClass", key.Name, "reason", event.Reason, "message", event.Note)
		c.recorder.Eventf(class, nil, event.Type, event.Reason, event.Action, "%s", event.Note)
	}
	return nil
}

// crashed shows a panic on the class. The log has the stack.
func (c *Controller) crashed(ctx context.Context, key cache.ObjectName) {
	class, err := c.classes.Get(key.Name)
	if err != nil {
		return
	}
	status := *class.Status.DeepCopy()
	status.ObservedGeneration = class.Generation
	status.Conditions = condition.InternalError(status.Conditions, class.Generation, c.clock.Now())
	if err := c.updateStatus(ctx, key, class, class.ResourceVersion, status); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot show the panic", "clusterClass", key.Name)
	}
}
