// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grants gathers what a verdict on ResourceClaims depends on. The loop of claims shows verdicts and the loop of Workspaces acts on
// them, each from the same caches, so that neither waits for the other.
package grants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
	formspeclisters "github.com/formspec/formspec-operator/pkg/generated/listers/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// Judge decides on the claims of one scope.
type Judge struct {
	// Keys are the owners' published keys.
	Keys *ownerkeys.Keys
	// Datastores are those of all scopes, which remember of their owners whether they had published keys.
	Datastores []cache.TypedSharedIndexInformer[*v1alpha1.Datastore]

	settings   resourceclaim.Settings
	claims     cache.TypedIndexer[*v1alpha1.ResourceClaim]
	datastores formspeclisters.DatastoreLister
	byOwner    cache.TypedIndexer[*v1alpha1.Datastore]
	workspaces formspeclisters.WorkspaceLister
}

// NewJudge returns a judge that reads these caches, whose claims and datastores are indexed. others are the datastores of other scopes, which
// may have the same owners.
func NewJudge(keys *ownerkeys.Keys, settings resourceclaim.Settings, claims formspecinformers.TypedResourceClaimInformer,
	datastores formspecinformers.TypedDatastoreInformer, workspaces formspecinformers.TypedWorkspaceInformer,
	others ...formspecinformers.TypedDatastoreInformer,
) *Judge {
	j := &Judge{
		Keys: keys, settings: settings, claims: claims.TypedInformer().GetTypedIndexer(),
		datastores: datastores.Lister(), byOwner: datastores.TypedInformer().GetTypedIndexer(), workspaces: workspaces.Lister(),
		Datastores: []cache.TypedSharedIndexInformer[*v1alpha1.Datastore]{datastores.TypedInformer()},
	}
	for _, scope := range others {
		j.Datastores = append(j.Datastores, scope.TypedInformer())
	}
	return j
}

// Input is what the verdict on one claim depends on.
func (j *Judge) Input(claim *v1alpha1.ResourceClaim, now time.Time) (*resourceclaim.Input, error) {
	in := &resourceclaim.Input{Now: now, Settings: j.settings, Claim: claim}
	var err error
	if in.Datastore, err = j.datastore(claim.Namespace, claim.Spec.Datastore); err != nil {
		return nil, err
	}
	if in.Datastore != nil {
		if in.OwnerKeys, err = j.ownerKeys(in.Datastore); err != nil {
			return nil, err
		}
	}
	if _, err = j.workspaces.Workspaces(claim.Namespace).Get(claim.Spec.Workspace); err == nil {
		in.WorkspaceExists = true
	} else if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get Workspace %q: %w", claim.Spec.Workspace, err)
	}
	if in.Rivals, err = j.claims.ByTypedIndex(index.ClaimsByWorkspace, index.Key(claim.Namespace, claim.Spec.Workspace)); err != nil {
		return nil, fmt.Errorf("list the claims of Workspace %q: %w", claim.Spec.Workspace, err)
	}
	return in, nil
}

// Judged is one claim with the verdict on it.
type Judged struct {
	Claim   *v1alpha1.ResourceClaim
	Verdict resourceclaim.Verdict
}

// OfWorkspace decides on all claims that name a Workspace which exists, by datastore and then by name.
func (j *Judge) OfWorkspace(key cache.ObjectName, now time.Time) ([]Judged, error) {
	claims, err := j.claims.ByTypedIndex(index.ClaimsByWorkspace, index.Key(key.Namespace, key.Name))
	if err != nil {
		return nil, fmt.Errorf("list the claims of Workspace %s: %w", key, err)
	}
	slices.SortFunc(claims, func(a, b *v1alpha1.ResourceClaim) int {
		return cmp.Or(strings.Compare(a.Spec.Datastore, b.Spec.Datastore), strings.Compare(a.Name, b.Name))
	})
	var judged []Judged
	for len(claims) > 0 {
		n := 1
		for n < len(claims) && claims[n].Spec.Datastore == claims[0].Spec.Datastore {
			n++
		}
		in := resourceclaim.Input{Now: now, Settings: j.settings, WorkspaceExists: true}
		if in.Datastore, err = j.datastore(key.Namespace, claims[0].Spec.Datastore); err != nil {
			return nil, err
		}
		if in.Datastore != nil {
			if in.OwnerKeys, err = j.ownerKeys(in.Datastore); err != nil {
				return nil, err
			}
		}
		for i, verdict := range resourceclaim.JudgeAll(in, claims[:n]) {
			judged = append(judged, Judged{claims[i], verdict})
		}
		claims = claims[n:]
	}
	return judged, nil
}

func (j *Judge) datastore(namespace, name string) (*v1alpha1.Datastore, error) {
	ds, err := j.datastores.Datastores(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Datastore %q: %w", name, err)
	}
	return ds, nil
}
