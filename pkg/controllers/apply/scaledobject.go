// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
)

// scaledObjects is a client of KEDA's kind with the methods of a generated one.
func (w *Writer) scaledObjects(namespace string) scaledObjects {
	return scaledObjects{w.Dynamic.Resource(keda.Resource).Namespace(namespace)}
}

type scaledObjects struct{ dynamic.ResourceInterface }

// Get reads one object.
func (s scaledObjects) Get(ctx context.Context, name string, options metav1.GetOptions) (*unstructured.Unstructured, error) {
	return s.ResourceInterface.Get(ctx, name, options)
}

// Delete deletes one object.
func (s scaledObjects) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return s.ResourceInterface.Delete(ctx, name, options)
}

// Apply writes one object.
func (s scaledObjects) Apply(ctx context.Context, config *keda.HTTPScaledObject, options metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return s.ResourceInterface.Apply(ctx, *config.GetName(), &unstructured.Unstructured{Object: object}, options)
}
