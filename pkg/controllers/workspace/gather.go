// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
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
