// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnClient is what the typed clients of our own kinds have in common.
type OwnClient[T metav1.Object, C any] interface {
	Apply(ctx context.Context, config C, options metav1.ApplyOptions) (T, error)
	Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// AddFinalizer applies a configuration that holds the object's name and UID, and the finalizer.
func AddFinalizer[T metav1.Object, C any](ctx context.Context, api OwnClient[T, C], manager string, with C) (T, error) {
	written, err := api.Apply(ctx, with, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if err != nil {
		return written, fmt.Errorf("add finalizer: %w", err)
	}
	return written, nil
}

// RemoveFinalizer takes the finalizer off an object, if it is still as the cache has it. gone says that there is no such object any more;
// what others still hold keeps it until they let go too.
//
// It is no apply: one that states no finalizers takes those along that no field manager owns, and such are the API server's own "orphan"
// and "foregroundDeletion". Without the former, the garbage collector deletes what should have been orphaned.
func RemoveFinalizer[T metav1.Object, C any](ctx context.Context, api OwnClient[T, C], manager, finalizer string, object T) (written T, gone bool, err error) {
	others := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == finalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": object.GetResourceVersion(), "finalizers": others}})
	if err != nil {
		return written, false, fmt.Errorf("encode finalizers: %w", err)
	}
	written, err = api.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	if apierrors.IsNotFound(err) {
		return written, true, nil
	}
	if err != nil {
		return written, false, fmt.Errorf("remove finalizer: %w", err)
	}
	return written, written.GetDeletionTimestamp() != nil && len(written.GetFinalizers()) == 0, nil
}
