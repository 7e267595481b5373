// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// Observe reads one child of the key's object from the cache, with the part of it that the field manager applied.
func Observe[T reconcile.Object, C reconcile.TypedConfig[C]](
	m *Memory, key cache.ObjectName, manager string, get func(name string) (T, error), name string, extract func(T, string) (C, error),
) (reconcile.Child[T, C], error) {
	live, err := get(name)
	if apierrors.IsNotFound(err) {
		return reconcile.Child[T, C]{}, nil
	}
	if err != nil {
		return reconcile.Child[T, C]{}, fmt.Errorf("get %s: %w", name, err)
	}
	ours, err := extract(live, manager)
	if err != nil {
		return reconcile.Child[T, C]{}, fmt.Errorf("read our fields of %s: %w", name, err)
	}
	return reconcile.Child[T, C]{
		Live: live, Ours: ours, Legacy: reconcile.Legacy(live), Rewritten: m.Rewritten(key, ptr.Deref(ours.GetKind(), "")),
	}, nil
}
