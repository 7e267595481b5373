// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index holds the indexes that several controllers read, so that nobody lists what it can look up.
package index

import (
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

const (
	// WorkspacesByClass finds the Workspaces that name a ClusterClass.
	WorkspacesByClass = "spec.clusterClass"
	// WorkspacesByLabel finds the Workspaces whose children and pods carry a label value, as namespace/value.
	WorkspacesByLabel = v1alpha1.LabelWorkspace
	// WorkspacesByUID finds a Workspace by its UID.
	WorkspacesByUID = "metadata.uid"
	// WorkspacesByHost finds the Workspaces that claim a host.
	WorkspacesByHost = "spec.hosts"
)

// Workspaces adds the indexes of Workspaces to their informer, unless it has them.
func Workspaces(informer cache.TypedSharedIndexInformer[*v1alpha1.Workspace]) error {
	if _, there := informer.GetIndexer().GetIndexers()[WorkspacesByClass]; there {
		return nil
	}
	return informer.AddTypedIndexers(cache.TypedIndexers[*v1alpha1.Workspace]{
		WorkspacesByClass: func(ws *v1alpha1.Workspace) ([]string, error) { return []string{ws.Spec.ClusterClass}, nil },
		WorkspacesByLabel: func(ws *v1alpha1.Workspace) ([]string, error) {
			return []string{Key(ws.Namespace, names.Label(ws.Name))}, nil
		},
		WorkspacesByUID:  func(ws *v1alpha1.Workspace) ([]string, error) { return []string{string(ws.UID)}, nil },
		WorkspacesByHost: func(ws *v1alpha1.Workspace) ([]string, error) { return ws.Spec.Hosts, nil },
		WorkspacesByDatastore: func(ws *v1alpha1.Workspace) ([]string, error) {
			var keys []string
			for _, listed := range slices.Concat(ws.Spec.Datastores, ws.Spec.Cache) {
				keys = append(keys, Key(ws.Namespace, listed.Name))
			}
			return keys, nil
		},
	})
}

// Key is a key of an index within a namespace: the namespace and a label value or a name.
func Key(namespace, value string) string { return namespace + "/" + value }
