// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// gather reads the caches only. A nil Input means that there is no such ResourceClaim.
func (c *Controller) gather(key cache.ObjectName) (*resourceclaim.Input, error) {
	claim, err := c.claims.ResourceClaims(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ResourceClaim %s: %w", key, err)
	}
	return c.judge.Input(claim, c.clock.Now())
}
