// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grants

import (
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// ownerKeys are the published keys of the owner of a Datastore. Where there is no ConfigMap at all, the key that the Datastore states counts
// as it does without an entry, for a cluster may do without published keys. It does not if the owner is known to publish some, else an outage
// would be the moment to speak in his name; and where it counts never, an outage is just that. Source: contract §4.
func (j *Judge) ownerKeys(ds *v1alpha1.Datastore) (resourceclaim.OwnerKeys, error) {
	published, absent := j.Keys.Published()
	if absent && j.settings.TrustDatastoreKeys && ds.Spec.OwnerPublicKey != "" {
		listed, err := j.listed(ds.Spec.Owner)
		if err != nil {
			return resourceclaim.OwnerKeys{}, err
		}
		if !listed {
			return resourceclaim.OwnerKeys{State: resourceclaim.KeysNoEntry}, nil
		}
	}
	return resourceclaim.LookUp(published, ds.Spec.Owner), nil
}

// listed says whether any Datastore, of whatever scope and owner it is now, remembers that the owner had published keys.
func (j *Judge) listed(owner string) (bool, error) {
	for _, datastores := range j.Datastores {
		found, err := datastores.GetIndexer().IndexKeys(index.DatastoresByListedOwner, owner)
		if err != nil {
			return false, fmt.Errorf("find the Datastores that list owner %q: %w", owner, err)
		}
		if len(found) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// ListedHandler is for the Datastores of every scope. It calls wake with each Datastore of this scope whose owner has become one with
// published keys, or is forgotten as one, while the keys are absent. At any other time nobody is asked who is listed, and all wake when that
// time ends.
func (j *Judge) ListedHandler(wake func(*v1alpha1.Datastore)) cache.TypedResourceEventHandler[*v1alpha1.Datastore] {
	changed := func(owner string, listed bool) {
		if _, absent := j.Keys.Published(); !absent {
			return
		}
		if still, err := j.listed(owner); err != nil || still != listed {
			return // another Datastore remembers the owner, or its event is still to come
		}
		datastores, err := j.byOwner.ByTypedIndex(index.DatastoresByOwner, owner)
		if err != nil {
			return // the index is always there
		}
		for _, ds := range datastores {
			wake(ds)
		}
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[*v1alpha1.Datastore]{
		AddFunc: func(ds *v1alpha1.Datastore, initial bool) {
			if !initial { // everything wakes at the start anyway
				changed(ds.Status.ListedOwner, true)
			}
		},
		UpdateFunc: func(old, cur *v1alpha1.Datastore) {
			if old.Status.ListedOwner != cur.Status.ListedOwner {
				changed(old.Status.ListedOwner, false)
				changed(cur.Status.ListedOwner, true)
			}
		},
		DeleteFunc: func(ds cache.DeletedObject[*v1alpha1.Datastore]) {
			if ds.OptionalObj != nil {
				changed(ds.OptionalObj.Status.ListedOwner, false)
			}
		},
	}
}
