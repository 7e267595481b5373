// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
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

// RemoveFinalizer applies a configuration that holds the object's name and UID and nothing else. gone says that there is no such object
// any more; what others still hold keeps it until they let go too.
func RemoveFinalizer[T metav1.Object, C any](ctx context.Context, api OwnClient[T, C], manager, finalizer string, without C) (written T, gone bool, err error) {
	written, err = api.Apply(ctx, without, metav1.ApplyOptions{FieldManager: manager, Force: true})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return written, true, nil // the UID is no more
	}
	if err != nil {
		return written, false, fmt.Errorf("remove finalizer: %w", err)
	}
	if i := slices.Index(written.GetFinalizers(), finalizer); i >= 0 {
		// Another operator wrote it by an update, and what an apply does not own it cannot give up.
		path := fmt.Sprintf("/metadata/finalizers/%d", i)
		patch := fmt.Sprintf(`[{"op":"test","path":%q,"value":%q},{"op":"remove","path":%q}]`, path, finalizer, path)
		if written, err = api.Patch(ctx, written.GetName(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}); err != nil {
			return written, false, fmt.Errorf("remove finalizer: %w", err)
		}
	}
	return written, written.GetDeletionTimestamp() != nil && len(written.GetFinalizers()) == 0, nil
}
