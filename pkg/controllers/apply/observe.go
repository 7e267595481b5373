// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// Observe reads one child of the key's object from the cache, with the part of it that the field manager applied.
func Observe[T reconcile.Object, C reconcile.TypedConfig[C]](
	m *Memory, key cache.ObjectName, manager, kind string, get func(name string) (T, error), name string, extract func(T, string) (C, error),
) (reconcile.Child[T, C], error) {
	found := reconcile.Child[T, C]{Rewritten: m.Rewritten(key, kind, name)}
	live, err := get(name)
	if apierrors.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("get %s: %w", name, err)
	}
	ours, err := extract(live, manager)
	if err != nil {
		return found, fmt.Errorf("read our fields of %s: %w", name, err)
	}
	found.Live, found.Ours, found.Legacy = live, ours, reconcile.Legacy(live)
	return found, nil
}
