// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// gather reads the caches and our memory only. A nil Input means that there is no such ResourceClaim.
func (c *Controller) gather(key cache.ObjectName) (*resourceclaim.Input, error) {
	claim, err := c.claims.ResourceClaims(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ResourceClaim %s: %w", key, err)
	}
	in, err := c.judge.Input(claim, c.clock.Now())
	if err != nil {
		return nil, err
	}
	return in, c.gatherRole(key, in)
}

// gatherRole adds what is known of the claim's own login.
func (c *Controller) gatherRole(key cache.ObjectName, in *resourceclaim.Input) (err error) {
	role := &in.Role
	role.Secret, err = apply.Observe(c.memory, key, Name, "Secret", c.secrets.Secrets(key.Namespace).Get, names.Claim(key.Name), corev1ac.ExtractSecret)
	if err != nil {
		return err
	}
	place := in.Place()
	if role.Use, err = c.use(place, in); err != nil {
		return err
	}
	if role.Shared, err = c.shared(place, key.Namespace); err != nil {
		return err
	}
	role.Name, role.Last, role.Revision = c.login(in.Claim, place).Name(), c.logins.last(key, in.Claim.UID), rand.String(10)
	if role.Datastore, err = c.datastores.Datastores(key.Namespace).Get(place.Datastore); apierrors.IsNotFound(err) {
		role.Datastore = nil
		return nil
	} else if err != nil {
		return fmt.Errorf("get Datastore %q: %w", place.Datastore, err)
	}
	if admin := c.admin(role.Datastore); admin != nil {
		role.Admin = admin.Annotations[v1alpha1.AnnotationRevision]
	}
	return nil
}

// admin is the Secret with the datastore's own credentials. Nil: there is none, or it is not the datastore's.
func (c *Controller) admin(ds *v1alpha1.Datastore) *corev1.Secret {
	secret, err := c.secrets.Secrets(ds.Namespace).Get(names.Datastore(ds.Name))
	if err != nil || !metav1.IsControlledBy(secret, ds) {
		return nil
	}
	return secret
}

// shared says whether the workspace has credentials of the datastore that are no login of a claim.
func (c *Controller) shared(place resourceclaim.Place, namespace string) (bool, error) {
	credentials, err := c.secrets.Secrets(namespace).Get(names.Credentials(place.Workspace))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get the credentials of Workspace %q: %w", place.Workspace, err)
	}
	user := string(credentials.Data[workspace.VariableOf(place.Datastore, "USER")])
	return user != "" && !roles.IsLogin(user), nil
}

// use finds out whether the workspace still needs the claim's login.
func (c *Controller) use(place resourceclaim.Place, in *resourceclaim.Input) (resourceclaim.Use, error) {
	if !in.Role.Secret.Exists() {
		return resourceclaim.NotUsed, nil
	}
	namespace := in.Claim.Namespace
	credentials, err := c.secrets.Secrets(namespace).Get(names.Credentials(place.Workspace))
	if apierrors.IsNotFound(err) {
		return resourceclaim.NotUsed, nil
	}
	if err != nil {
		return resourceclaim.NotUsed, fmt.Errorf("get the credentials of Workspace %q: %w", place.Workspace, err)
	}
	deployment, err := c.deployments.Deployments(namespace).Get(names.Deployment(place.Workspace))
	if apierrors.IsNotFound(err) {
		return resourceclaim.NotUsed, nil
	}
	if err != nil {
		return resourceclaim.NotUsed, fmt.Errorf("get the Deployment of Workspace %q: %w", place.Workspace, err)
	}
	return resourceclaim.UseOf(in.Role.Secret.Live.Data[datastore.KeyUser], credentials, deployment), nil
}
