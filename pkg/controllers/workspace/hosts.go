// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/hosts"
)

// refusedHosts are the hosts that a Workspace claims and does not get.
func (c *Controller) refusedHosts(ws *v1alpha1.Workspace) ([]hosts.Refusal, error) {
	if len(ws.Spec.Hosts) == 0 {
		return nil, nil
	}
	claims := []*v1alpha1.Workspace{ws}
	for _, host := range ws.Spec.Hosts {
		for _, indexer := range c.rivals {
			rivals, err := indexer.ByTypedIndex(index.WorkspacesByHost, host)
			if err != nil {
				return nil, fmt.Errorf("find who claims host %q: %w", host, err)
			}
			for _, rival := range rivals {
				if !slices.ContainsFunc(claims, func(known *v1alpha1.Workspace) bool { return known.UID == rival.UID }) {
					claims = append(claims, rival)
				}
			}
		}
	}
	suffixes := func(name string) []string {
		class, err := c.classes.Get(name)
		if err != nil {
			return nil
		}
		return class.Spec.HostSuffixes
	}
	return hosts.Accept(claims, suffixes).Refused[types.NamespacedName{Namespace: ws.Namespace, Name: ws.Name}], nil
}

// hostHandler wakes the Workspaces that claim a host which somebody else has begun or ceased to claim.
func (c *Controller) hostHandler() cache.TypedResourceEventHandler[*v1alpha1.Workspace] {
	return cache.TypedResourceEventHandlerDetailedFuncs[*v1alpha1.Workspace]{
		AddFunc: func(ws *v1alpha1.Workspace, initial bool) {
			if !initial { // every Workspace wakes at the start anyway
				c.wakeRivals(ws.Spec.Hosts)
			}
		},
		UpdateFunc: func(old, cur *v1alpha1.Workspace) {
			if hosts.Changed(old, cur) {
				c.wakeRivals(old.Spec.Hosts)
				c.wakeRivals(cur.Spec.Hosts)
			}
		},
		DeleteFunc: func(ws cache.DeletedObject[*v1alpha1.Workspace]) {
			if ws.OptionalObj != nil {
				c.wakeRivals(ws.OptionalObj.Spec.Hosts)
			}
		},
	}
}

// wakeRivals wakes the Workspaces of this scope that claim one of the hosts.
func (c *Controller) wakeRivals(claimed []string) {
	for _, host := range claimed {
		workspaces, err := c.workspaceIndex.ByTypedIndex(index.WorkspacesByHost, host)
		if err != nil {
			return // the index is always there
		}
		for _, ws := range workspaces {
			c.enqueue(cache.MetaObjectToName(ws), now)
		}
	}
}
