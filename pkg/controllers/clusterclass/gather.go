// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/clusterclass"
)

// gather reads the caches only. A nil Input means that there is no such ClusterClass.
func (c *Controller) gather(key cache.ObjectName) (*clusterclass.Input, error) {
	class, err := c.classes.Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ClusterClass %q: %w", key.Name, err)
	}
	return &clusterclass.Input{
		Now: c.clock.Now(), AllowUnpinned: c.unpinned, Class: class, Workspaces: c.using(key.Name), Admitted: c.ledger.Admitted(key.Name),
	}, nil
}

// using names the Workspaces that name the class, sorted.
func (c *Controller) using(class string) []string {
	var names []string
	for _, scope := range c.workspaces {
		workspaces, err := scope.ByTypedIndex(index.WorkspacesByClass, class)
		if err != nil {
			continue // the index is always there
		}
		for _, ws := range workspaces {
			names = append(names, cache.MetaObjectToName(ws).String())
		}
	}
	slices.Sort(names)
	return names
}
