// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// LabelDriver is among the labels of a datastore's registration.
const LabelDriver = LabelPrefix + "driver"

// DatastoreID is the id of a datastore: those which keep nothing for good are caches.
func DatastoreID(ds *v1alpha1.Datastore) clustercontrol.ID {
	kind := clustercontrol.KindDatastore
	switch ds.Spec.Driver {
	case v1alpha1.DriverValkey, v1alpha1.DriverRedis, v1alpha1.DriverMemory:
		kind = clustercontrol.KindCache
	}
	return clustercontrol.ID{Kind: kind, ID: ds.Namespace + "/" + ds.Name}
}

// Validated says that a datastore was found to work, which comes before it is registered. Source: contract §3.
func Validated(ds *v1alpha1.Datastore) bool {
	return meta.IsStatusConditionTrue(ds.Status.Conditions, v1alpha1.ConditionValidated)
}

// DatastoreRegistration is a datastore as it is registered: what it is and offers, not where it is nor how to get in.
func DatastoreRegistration(ds *v1alpha1.Datastore) clustercontrol.Registration {
	id, capacity, kept := DatastoreID(ds), map[string]int64{}, labels(ds.Labels)
	kept[LabelDriver] = string(ds.Spec.Driver)
	known(capacity, clustercontrol.CapacityMaxConnections, int64(ds.Spec.Capacity.MaxConnections))
	known(capacity, clustercontrol.CapacityStorageGB, int64(ds.Spec.Capacity.StorageGB))
	return clustercontrol.Registration{Kind: id.Kind, ID: id.ID, Action: clustercontrol.ActionRegister, Labels: kept, Capacity: capacity}
}
