// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

const (
	// ClaimsByWorkspace finds the ResourceClaims that name a Workspace, as namespace/name.
	ClaimsByWorkspace = "spec.workspace"
	// ClaimsByDatastore finds the ResourceClaims that name a Datastore, as namespace/name.
	ClaimsByDatastore = "spec.datastore"
	// DatastoresBySecret finds the Datastores whose endpoint is in a Secret, as namespace/name.
	DatastoresBySecret = "spec.endpointSecretRef.name"
	// DatastoresByOwner finds the Datastores of an owner.
	DatastoresByOwner = "spec.owner"
	// DatastoresByListedOwner finds the Datastores that remember of an owner that he had published keys.
	DatastoresByListedOwner = "status.listedOwner"
	// WorkspacesByDatastore finds the Workspaces that list a Datastore, as namespace/name.
	WorkspacesByDatastore = "spec.datastores"
)

// Claims adds the indexes of ResourceClaims to their informer, unless it has them.
func Claims(informer cache.TypedSharedIndexInformer[*v1alpha1.ResourceClaim]) error {
	if _, there := informer.GetIndexer().GetIndexers()[ClaimsByWorkspace]; there {
		return nil
	}
	return informer.AddTypedIndexers(cache.TypedIndexers[*v1alpha1.ResourceClaim]{
		ClaimsByWorkspace: func(claim *v1alpha1.ResourceClaim) ([]string, error) {
			return []string{Key(claim.Namespace, claim.Spec.Workspace)}, nil
		},
		ClaimsByDatastore: func(claim *v1alpha1.ResourceClaim) ([]string, error) {
			return []string{Key(claim.Namespace, claim.Spec.Datastore)}, nil
		},
	})
}

// Datastores adds the indexes of Datastores to their informer, unless it has them.
func Datastores(informer cache.TypedSharedIndexInformer[*v1alpha1.Datastore]) error {
	if _, there := informer.GetIndexer().GetIndexers()[DatastoresBySecret]; there {
		return nil
	}
	return informer.AddTypedIndexers(cache.TypedIndexers[*v1alpha1.Datastore]{
		DatastoresBySecret: func(ds *v1alpha1.Datastore) ([]string, error) {
			return []string{Key(ds.Namespace, ds.Spec.EndpointSecretRef.Name)}, nil
		},
		DatastoresByOwner:       func(ds *v1alpha1.Datastore) ([]string, error) { return unlessEmpty(ds.Spec.Owner), nil },
		DatastoresByListedOwner: func(ds *v1alpha1.Datastore) ([]string, error) { return unlessEmpty(ds.Status.ListedOwner), nil },
	})
}

// unlessEmpty keeps what names nobody out of an index.
func unlessEmpty(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}
