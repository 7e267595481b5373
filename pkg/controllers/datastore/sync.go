// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	formspecac "github.com/formspec/formspec-operator/pkg/generated/applyconfiguration/formspec/v1alpha1"
	children "github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
	reconcile "github.com/formspec/formspec-operator/pkg/reconcile/datastore"
)

// sync brings one Datastore to what it should be.
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
		c.offers.forget(key)
		c.pool.Forget(key)
		return 0, nil
	}
	plan := reconcile.Make(*in)
	if plan.Read {
		if err := c.read(ctx, key, in); err != nil {
			return 0, err
		}
		if in, err = c.gather(key); err != nil || in == nil {
			return 0, err
		}
		plan = reconcile.Make(*in)
	}
	version, refused := c.execute(ctx, key, in, plan)
	after := plan.After
	switch in.Refusal = apply.Refusal(refused); {
	case version == gone:
		return 0, nil
	case in.Refusal != nil:
		plan.Status, after = reconcile.Status(*in), apply.RefusalRetry
		refused = worker.Terminal(refused)
	case refused != nil:
		return 0, refused // a fault that passes says nothing about the Datastore
	}
	if err := c.updateStatus(ctx, key, in.Datastore, version, plan.Status); err != nil {
		return 0, err
	}
	return after, refused
}

// gone as a resourceVersion says that the Datastore is no more.
const gone = "gone"

// execute carries out the plan, up to the first write that fails. It returns the Datastore's newest resourceVersion.
func (c *Controller) execute(ctx context.Context, key cache.ObjectName, in *reconcile.Input, plan reconcile.Plan) (version string, err error) {
	if version, err = c.finalizer(ctx, key, in.Datastore, plan); err != nil || version == gone {
		return version, err
	}
	if plan.Probe {
		c.probe(ctx, key, in)
	}
	if plan.Recheck {
		c.recheck(ctx, key, in)
	}
	for _, write := range plan.Apply {
		kind := ptr.Deref(write.Config.GetKind(), "")
		klog.FromContext(ctx).V(2).Info("Applying child", "datastore", key, "kind", kind, "name", ptr.Deref(write.Config.GetName(), ""), "create", write.Create)
		result, err := c.memory.Send(key, in.Datastore.UID, write, func() (apply.Result, error) {
			return c.writer.Apply(ctx, write, func(object metav1.Object) bool { return metav1.IsControlledBy(object, in.Datastore) })
		})
		if err != nil {
			return version, err
		}
		c.memory.Wrote(key, c.stores[kind], result.ResourceVersion)
		if secret, ok := write.Config.(*corev1ac.SecretApplyConfiguration); ok {
			c.offers.accepted(key, secret.Annotations[v1alpha1.AnnotationOrigin])
		}
	}
	return version, nil
}

// finalizer adds or removes the Datastore's, as planned.
func (c *Controller) finalizer(ctx context.Context, key cache.ObjectName, ds *v1alpha1.Datastore, plan reconcile.Plan) (version string, err error) {
	api := c.formspec.FormspecV1alpha1().Datastores(key.Namespace)
	var written *v1alpha1.Datastore
	var vanished bool
	switch plan.Finalizer {
	case children.FinalizerAdd:
		written, err = apply.AddFinalizer(ctx, api, Name,
			formspecac.Datastore(ds.Name, ds.Namespace).WithUID(ds.UID).WithFinalizers(v1alpha1.DatastoreRolesFinalizer))
	case children.FinalizerRemove:
		written, vanished, err = apply.RemoveFinalizer(ctx, api, Name, v1alpha1.DatastoreRolesFinalizer, ds)
	default:
		return ds.ResourceVersion, nil
	}
	switch {
	case err != nil:
		return ds.ResourceVersion, fmt.Errorf("write Datastore %s: %w", key, err)
	case vanished:
		return gone, nil
	}
	c.memory.Wrote(key, c.stores["Datastore"], written.ResourceVersion)
	return written.ResourceVersion, nil
}

// updateStatus writes the status if it differs, and then tells what changed.
func (c *Controller) updateStatus(ctx context.Context, key cache.ObjectName, ds *v1alpha1.Datastore, version string, status v1alpha1.DatastoreStatus) error {
	if equality.Semantic.DeepEqual(ds.Status, status) {
		return nil
	}
	update := ds.DeepCopy()
	update.ResourceVersion, update.Status = version, status
	written, err := c.formspec.FormspecV1alpha1().Datastores(key.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: Name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status of Datastore %s: %w", key, err)
	}
	c.memory.Wrote(key, c.stores["Datastore"], written.ResourceVersion)
	for _, event := range condition.Events(ds.Status.Conditions, status.Conditions) {
		klog.FromContext(ctx).V(2).Info("Datastore changed", "datastore", key, "reason", event.Reason, "message", event.Note)
		c.recorder.Eventf(ds, nil, event.Type, event.Reason, event.Action, "%s", event.Note)
	}
	return nil
}

// crashed shows a panic on the Datastore. The log has the stack.
func (c *Controller) crashed(ctx context.Context, key cache.ObjectName) {
	ds, err := c.datastores.Datastores(key.Namespace).Get(key.Name)
	if err != nil {
		return
	}
	status := *ds.Status.DeepCopy()
	status.ObservedGeneration = ds.Generation
	status.Conditions = condition.InternalError(status.Conditions, ds.Generation, c.clock.Now())
	if err := c.updateStatus(ctx, key, ds, ds.ResourceVersion, status); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot show the panic", "datastore", key)
	}
}
