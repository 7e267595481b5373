// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/controllers/trim"
	"github.com/formspec/formspec-operator/pkg/controllers/workspace"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
)

// kedaPatience is how long the start waits to hear whether the cluster has KEDA's kind.
const kedaPatience = 10 * time.Second

// hasKEDA asks once whether the cluster has the kind HTTPScaledObject. To look again the operator is restarted: nobody should be asked for
// ever about what most clusters never have.
func hasKEDA(ctx context.Context, config *rest.Config) (bool, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return false, fmt.Errorf("set up the client for discovery: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, kedaPatience)
	defer cancel()
	var found metav1.APIResourceList
	err = kube.Discovery().RESTClient().Get().AbsPath("/apis", keda.GroupVersion.Group, keda.GroupVersion.Version).Do(ctx).Into(&found)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask whether the cluster has %s: %w", keda.Resource.GroupResource(), err)
	}
	for _, resource := range found.APIResources {
		if resource.Name == keda.Resource.Resource {
			return true, nil
		}
	}
	return false, nil
}

// scaledObjects watches those that the operator wrote, also when it writes none any more: they have to go then.
func scaledObjects(read clients, namespace, selector string) cache.TypedSharedIndexInformer[*unstructured.Unstructured] {
	informer := dynamicinformer.NewFilteredDynamicInformer(read.dynamic, keda.Resource, namespace, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = selector }).Informer()
	utilruntime.Must(informer.SetTransform(trim.Children(workspace.Name))) // it fails for an informer that has started only
	return cache.NewTypedSharedIndexInformer[*unstructured.Unstructured](informer)
}
