// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/datastore/roles"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// gather reads the caches only. A nil Input means that there is no such Workspace.
func (c *Controller) gather(key cache.ObjectName) (*workspace.Input, error) {
	ws, err := c.workspaces.Workspaces(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Workspace %s: %w", key, err)
	}
	in := &workspace.Input{Now: c.clock.Now(), Settings: c.settings, Workspace: ws, Restart: c.restarts.Newest(key)}
	if in.Class, err = c.classes.Get(ws.Spec.ClusterClass); apierrors.IsNotFound(err) {
		in.Class = nil
	} else if err != nil {
		return nil, fmt.Errorf("get ClusterClass %q: %w", ws.Spec.ClusterClass, err)
	}
	if in.Pods, err = c.podIndex.ByTypedIndex(podsByLabel, index.Key(ws.Namespace, names.Label(ws.Name))); err != nil {
		return nil, fmt.Errorf("list pods of Workspace %s: %w", key, err)
	}
	if in.Children, err = c.children(key); err != nil {
		return nil, err
	}
	if in.Hosts, err = c.refusedHosts(ws); err != nil {
		return nil, err
	}
	c.traffic(in)
	return in, c.bindings(key, in)
}

// bindings gathers the claims with the verdict on each, and what the Workspace lists.
func (c *Controller) bindings(key cache.ObjectName, in *workspace.Input) error {
	judged, err := c.judge.OfWorkspace(key, in.Now)
	if err != nil {
		return err
	}
	var had map[string][]byte // what the workspace was handed last
	if in.Children.Credentials.Exists() {
		had = in.Children.Credentials.Ours.Data
	}
	for _, j := range judged {
		binding := workspace.Binding{Claim: j.Claim, Approved: j.Verdict.Approved, Reason: j.Verdict.Reason, Message: j.Verdict.Message}
		if binding.Credentials, binding.Awaited, err = c.inForce(j.Claim, had); err != nil {
			return err
		}
		in.Bindings = append(in.Bindings, binding)
		if next := j.Verdict.Next; !next.IsZero() {
			if wait := next.Sub(in.Now); in.Recheck == 0 || wait < in.Recheck {
				in.Recheck = wait
			}
		}
	}
	for _, reference := range slices.Concat(in.Workspace.Spec.Datastores, in.Workspace.Spec.Cache) {
		listed := workspace.Listed{DatastoreReference: reference}
		if listed.Datastore, err = c.datastores.Datastores(key.Namespace).Get(reference.Name); apierrors.IsNotFound(err) {
			listed.Datastore = nil
		} else if err != nil {
			return fmt.Errorf("get Datastore %q: %w", reference.Name, err)
		}
		in.Listed = append(in.Listed, listed)
	}
	return nil
}

// inForce is a Secret with the credentials that the claim gets: the datastore's, or with roles PerClaim those of the claim's own login. Until
// there is one, the workspace keeps what it had of the datastore's. Nil: there are none yet, or somebody else's Secret has the name. They
// are awaited unless the datastore or the login has failed.
func (c *Controller) inForce(claim *v1alpha1.ResourceClaim, had map[string][]byte) (credentials *corev1.Secret, awaited bool, err error) {
	ds, err := c.datastores.Datastores(claim.Namespace).Get(claim.Spec.Datastore)
	if err != nil {
		return nil, false, nil // a cache has it, or has not
	}
	awaited = !meta.IsStatusConditionFalse(ds.Status.Conditions, v1alpha1.ConditionValidated)
	if !resourceclaim.PerClaim(ds) {
		credentials, err = c.managed(names.Datastore(ds.Name), ds)
		return credentials, awaited && credentials == nil, err
	}
	awaited = awaited && !meta.IsStatusConditionFalse(claim.Status.Conditions, v1alpha1.ConditionRoleReady)
	if credentials, err = c.managed(names.Claim(claim.Name), claim); err != nil || credentials != nil {
		return credentials, false, err
	}
	shared, err := c.managed(names.Datastore(ds.Name), ds)
	if err != nil || shared == nil {
		return nil, awaited, err
	}
	credentials = workspace.Kept(claim, shared, had, roles.IsLogin)
	return credentials, awaited && credentials == nil, nil
}

// managed is the Secret of that name with credentials. Nil: there is none, or it is not the owner's.
func (c *Controller) managed(name string, owner metav1.Object) (*corev1.Secret, error) {
	secret, err := c.secrets.Secrets(owner.GetNamespace()).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	if !metav1.IsControlledBy(secret, owner) || secret.Annotations[v1alpha1.AnnotationRevision] == "" {
		return nil, nil // a claim that has no login has an empty Secret
	}
	return secret, nil
}

func (c *Controller) children(key cache.ObjectName) (children workspace.Children, err error) {
	ns, name := key.Namespace, names.Deployment(key.Name)
	if children.Credentials, err = c.credentials(key); err != nil {
		return children, err
	}
	if children.ConfigMap, err = apply.Observe(c.memory, key, Name, "ConfigMap", c.configMaps.ConfigMaps(ns).Get, names.ConfigMap(key.Name), corev1ac.ExtractConfigMap); err != nil {
		return children, err
	}
	if children.Service, err = apply.Observe(c.memory, key, Name, "Service", c.services.Services(ns).Get, name, corev1ac.ExtractService); err != nil {
		return children, err
	}
	if children.PodsService, err = apply.Observe(c.memory, key, Name, "Service", c.services.Services(ns).Get, names.Pods(key.Name), corev1ac.ExtractService); err != nil {
		return children, err
	}
	if children.Slice, err = apply.Observe(c.memory, key, Name, "EndpointSlice", c.endpointSlices.EndpointSlices(ns).Get, names.Activator(key.Name), discoveryv1ac.ExtractEndpointSlice); err != nil {
		return children, err
	}
	if children.HTTPScaledObject, err = c.scaledObject(key); err != nil {
		return children, err
	}
	if children.Theirs, err = c.theirs(key); err != nil {
		return children, err
	}
	if children.Deployment, err = apply.Observe(c.memory, key, Name, "Deployment", c.deployments.Deployments(ns).Get, name, appsv1ac.ExtractDeployment); err != nil {
		return children, err
	}
	if children.Autoscaler, err = apply.Observe(c.memory, key, Name, "HorizontalPodAutoscaler", c.autoscalers.HorizontalPodAutoscalers(ns).Get, name, autoscalingv2ac.ExtractHorizontalPodAutoscaler); err != nil {
		return children, err
	}
	children.DisruptionBudget, err = apply.Observe(c.memory, key, Name, "PodDisruptionBudget", c.disruptionBudgets.PodDisruptionBudgets(ns).Get, name, policyv1ac.ExtractPodDisruptionBudget)
	return children, err
}

func (c *Controller) credentials(key cache.ObjectName) (workspace.Secret, error) {
	return apply.Observe(c.memory, key, Name, "Secret", c.secrets.Secrets(key.Namespace).Get, names.Credentials(key.Name), corev1ac.ExtractSecret)
}
