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

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
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
		return 0, nil
	}
	plan := resourceclaim.Make(*in)
	return plan.After, c.updateStatus(ctx, key, in.Claim, plan.Status)
}

// updateStatus writes the status if it differs, and then tells what changed.
func (c *Controller) updateStatus(ctx context.Context, key cache.ObjectName, claim *v1alpha1.ResourceClaim, status v1alpha1.ResourceClaimStatus) error {
	if equality.Semantic.DeepEqual(claim.Status, status) {
		return nil
	}
	update := claim.DeepCopy()
	update.Status = status
	written, err := c.formspec.FormspecV1alpha1().ResourceClaims(key.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{FieldManager: Name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update status of ResourceClaim %s: %w", key, err)
	}
	c.memory.Wrote(key, c.store, written.ResourceVersion)
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
	if err := c.updateStatus(ctx, key, claim, status); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot show the panic", "resourceClaim", key)
	}
}
