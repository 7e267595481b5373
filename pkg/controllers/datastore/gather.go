// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	reconcile "github.com/formspec/formspec-operator/pkg/reconcile/datastore"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// gather reads the caches and our memory only. A nil Input means that there is no such Datastore.
func (c *Controller) gather(key cache.ObjectName) (*reconcile.Input, error) {
	ds, err := c.datastores.Datastores(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Datastore %s: %w", key, err)
	}
	now := c.clock.Now()
	memo := c.offers.recall(key, now)
	in := &reconcile.Input{Now: now, Datastore: ds, Since: memo.since, Offer: memo.offer, Check: memo.check, Revision: rand.String(10)}
	object, found, err := c.sources.GetByKey(index.Key(key.Namespace, ds.Spec.EndpointSecretRef.Name))
	if err != nil {
		return nil, fmt.Errorf("get the metadata of the endpoint Secret of Datastore %s: %w", key, err)
	}
	if source, ok := object.(*metav1.PartialObjectMetadata); found && ok {
		in.Source = sourceOf(source)
	}
	if in.Managed, err = apply.Observe(c.memory, key, Name, "Secret", c.secrets.Secrets(key.Namespace).Get, names.Datastore(key.Name), corev1ac.ExtractSecret); err != nil {
		return nil, err
	}
	claims, err := c.claimIndex.ByTypedIndex(index.ClaimsByDatastore, index.Key(key.Namespace, key.Name))
	if err != nil {
		return nil, fmt.Errorf("list claims for Datastore %s: %w", key, err)
	}
	for _, claim := range claims {
		if approved(claim) {
			in.Claims = append(in.Claims, claim)
		}
		in.Logins = in.Logins || resourceclaim.HasLogin(claim)
	}
	if published, _ := c.keys.Published(); published != nil {
		in.ListedOwner = new("")
		if resourceclaim.LookUp(published, ds.Spec.Owner).State == resourceclaim.KeysPublished {
			in.ListedOwner = new(ds.Spec.Owner)
		}
	}
	return in, nil
}
