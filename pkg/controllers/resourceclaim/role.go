// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"errors"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// Roles makes and drops logins. Their errors are *datastore.Error.
type Roles interface {
	Ensure(ctx context.Context, admin datastore.Endpoint, login roles.Login) (datastore.Endpoint, error)
	Drop(ctx context.Context, admin datastore.Endpoint, login roles.Login) error
}

// login is what names the claim's login at a place.
func (c *Controller) login(claim *v1alpha1.ResourceClaim, place resourceclaim.Place) roles.Login {
	return roles.Login{
		Cluster: c.cluster, Namespace: claim.Namespace, Datastore: place.Datastore, Workspace: place.Workspace, Claim: claim.Name, UID: claim.UID,
	}
}

// ensure makes the login in the background, with a new password or the one that is in the Secret. Its end wakes the key.
func (c *Controller) ensure(ctx context.Context, key cache.ObjectName, in *resourceclaim.Input, plan resourceclaim.Plan) {
	want := *plan.Ensure
	login := c.login(in.Claim, want.Place)
	login.Permission, login.ConnectionLimit = want.Permission, want.MaxConnections
	if plan.Fresh {
		login.Password = roles.NewPassword()
	} else {
		login.Password = string(in.Role.Secret.Live.Data[datastore.KeyPassword])
	}
	c.attempt(ctx, key, in, resourceclaim.Attempt{For: want.String()}, func(ctx context.Context, admin datastore.Endpoint) (map[string][]byte, error) {
		endpoint, err := c.roles.Ensure(ctx, admin, login)
		return endpoint.Parts(), err
	})
}

// drop drops the login in the background. Its end wakes the key.
func (c *Controller) drop(ctx context.Context, key cache.ObjectName, in *resourceclaim.Input, place resourceclaim.Place) {
	login := c.login(in.Claim, place)
	c.attempt(ctx, key, in, resourceclaim.Attempt{Drop: true, For: place.String()}, func(ctx context.Context, admin datastore.Endpoint) (map[string][]byte, error) {
		return nil, c.roles.Drop(ctx, admin, login)
	})
}

// attempt works on the server in the background, unless something is under way for the key already.
func (c *Controller) attempt(ctx context.Context, key cache.ObjectName, in *resourceclaim.Input, a resourceclaim.Attempt,
	work func(context.Context, datastore.Endpoint) (map[string][]byte, error),
) {
	secret := c.admin(in.Role.Datastore)
	if secret == nil {
		return // it went this moment, and that wakes us
	}
	admin, unreadable := datastore.Parse(in.Role.Datastore.Spec.Driver, string(secret.Data[datastore.KeyURI]), secret.Data[datastore.KeyCA])
	logger := klog.FromContext(ctx).WithValues("resourceClaim", key, "login", in.Role.Name, "drop", a.Drop)
	started := c.logins.start(key, in.Claim.UID, a.Drop, a.For, func(ctx context.Context) resourceclaim.Attempt {
		ended, err := a, unreadable
		if err == nil {
			ended.Data, err = work(ctx, admin)
		}
		if err != nil {
			ended.Data = nil
			ended.Reason, ended.Message = explain(err)
			logger.V(2).Info("Work on a login failed", "reason", ended.Reason, "message", ended.Message)
		}
		return ended
	}, func() { c.queue.Add(key) })
	if started {
		logger.V(2).Info("Working on a login")
	}
}

// explain is what may be shown of an error: only a *datastore.Error is known to hold no secret.
func explain(err error) (reason, message string) {
	if typed, ok := errors.AsType[*datastore.Error](err); ok {
		return typed.Reason, typed.Message
	}
	return v1alpha1.ReasonInternalError, "the operator itself failed; its log has the details"
}
