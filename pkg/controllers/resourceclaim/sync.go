// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

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
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// sync brings one ResourceClaim to what it should be.
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
		c.logins.forget(key)
		return 0, nil
	}
	plan := resourceclaim.Make(*in)
	version, refused := c.execute(ctx, key, in, plan)
	after := plan.After
	switch in.Role.Refusal = apply.Refusal(refused); {
	case version == gone:
		return 0, nil
	case in.Role.Refusal != nil:
		plan.Status, after = resourceclaim.Make(*in).Status, apply.RefusalRetry
		refused = worker.Terminal(refused)
	case refused != nil:
		return 0, refused // a fault that passes says nothing about the claim
	}
	if err := c.updateStatus(ctx, key, in.Claim, version, plan.Status); err != nil {
		return 0, err
	}
	return after, refused
}

// gone as a resourceVersion says that the claim is no more.
const gone = "gone"

// execute carries out the plan, up to the first write that fails. It returns the claim's newest resourceVersion.
func (c *Controller) execute(ctx context.Context, key cache.ObjectName, in *resourceclaim.Input, plan resourceclaim.Plan) (version string, err error) {
	version = in.Claim.ResourceVersion
	if plan.Finalizer == reconcile.FinalizerAdd {
		if version, err = c.addFinalizer(ctx, key, in.Claim); err != nil {
			return version, err
		}
	}
	if plan.Ensure != nil {
		c.ensure(ctx, key, in, plan)
	}
	if plan.Drop != nil {
		c.drop(ctx, key, in, *plan.Drop)
	}
	for _, write := range plan.Apply {
		klog.FromContext(ctx).V(2).Info("Applying child", "resourceClaim", key, "kind", "Secret", "name", ptr.Deref(write.Config.GetName(), ""), "create", write.Create)
		result, err := c.memory.Send(key, in.Claim.UID, write, func() (apply.Result, error) {
			return c.writer.Apply(ctx, write, func(object metav1.Object) bool { return metav1.IsControlledBy(object, in.Claim) })
		})
		if err != nil {
			return version, err
		}
		c.memory.Wrote(key, c.stores["Secret"], result.ResourceVersion)
		c.logins.forget(key) // the Secret has it now
	}
	if plan.Finalizer == reconcile.FinalizerRemove {
		if version, err = c.removeFinalizer(ctx, key, in.Claim); err != nil {
			return version, err
		}
	}
	for _, event := range plan.Events {
		klog.FromContext(ctx).V(2).Info("ResourceClaim changed", "resourceClaim", key, "reason", event.Reason, "message", event.Note)
		c.recorder.Eventf(in.Claim, nil, event.Type, event.Reason, event.Action, "%s", event.Note)
	}
	return version, nil
}

func (c *Controller) addFinalizer(ctx context.Context, key cache.ObjectName, claim *v1alpha1.ResourceClaim) (version string, err error) {
	api := c.formspec.FormspecV1alpha1().ResourceClaims(key.Namespace)
	written, err := apply.AddFinalizer(ctx, api, Name,
		formspecac.ResourceClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithFinalizers(v1alpha1.RoleFinalizer))
	if err != nil {
		return claim.ResourceVersion, err
	}
	c.memory.Wrote(key, c.stores["ResourceClaim"], written.ResourceVersion)
	return written.ResourceVersion, nil
}

func (c *Controller) removeFinalizer(ctx context.Context, key cache.ObjectName, claim *v1alpha1.ResourceClaim) (version string, err error) {
	api := c.formspec.FormspecV1alpha1().ResourceClaims(key.Namespace)
	written, vanished, err := apply.RemoveFinalizer(ctx, api, Name, v1alpha1.RoleFinalizer, claim)
	if err != nil {
		return claim.ResourceVersion, err
	}
	if vanished {
		return gone, nil
	}
	c.memory.Wrote(key, c.stores["ResourceClaim"], written.ResourceVersion)
	return written.ResourceVersion, nil
}

// updateStatus writes the status if it differs, and then tells what changed.
func (c *Controller) updateStatus(ctx context.Context, key cache.ObjectName, claim *v1alpha1.ResourceClaim, version string, status v1alpha1.ResourceClaimStatus) error {
	if equality.Semantic.DeepEqual(claim.Status, status) {
		return nil
	}
	update := claim.DeepCopy()
	update.ResourceVersion, update.Status = version, status
	written, err := c.formspec.FormspecV1alpha1().ResourceClaims(key.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: Name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status of ResourceClaim %s: %w", key, err)
	}
	c.memory.Wrote(key, c.stores["ResourceClaim"], written.ResourceVersion)
	for _, event := range condition.Events(claim.Status.Conditions, status.Conditions) {
		klog.FromContext(ctx).V(2).Info("ResourceClaim changed", "resourceClaim", key, "reason", event.Reason, "message", event.Note)
		c.recorder.Eventf(claim, nil, event.Type, event.Reason, event.Action, "%s", event.Note)
	}
	return nil
}

// crashed shows a panic on the claim. The log has the stack.
func (c *Controller) crashed(ctx context.Context, key cache.ObjectName) {
	claim, err := c.claims.ResourceClaims(key.Namespace).Get(key.Name)
	if err != nil {
		return
	}
	status := *claim.Status.DeepCopy()
	status.ObservedGeneration = claim.Generation
	status.Conditions = condition.InternalError(status.Conditions, claim.Generation, c.clock.Now())
	if err := c.updateStatus(ctx, key, claim, claim.ResourceVersion, status); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot show the panic", "resourceClaim", key)
	}
}
