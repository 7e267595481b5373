// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// Inventory is what there is, and what Cluster Control was told of.
type Inventory struct {
	// Nodes of the cluster. Nil: they cannot be read, so nothing is known of them. No nodes are an empty list.
	Nodes []*corev1.Node
	// Datastores in the namespaces that the operator works in.
	Datastores []*v1alpha1.Datastore
	// Registered are the ids that this leader, or an earlier one, has registered and not deregistered yet.
	Registered sets.Set[clustercontrol.ID]
	// Told is what this leader has handed over, by id: it is not handed over twice.
	Told map[clustercontrol.ID]clustercontrol.Registration
}

// Changes are the registrations and deregistrations to hand over, in a fixed order. A new leader, which has told nothing, registers
// everything anew: what an outbox still holds of an earlier term may contradict it.
//
// A datastore is registered once it was validated, and remains so while it is there, also when it is out of reach.
func Changes(in Inventory) []clustercontrol.Registration {
	want, keep := map[clustercontrol.ID]clustercontrol.Registration{}, sets.New[clustercontrol.ID]()
	for _, node := range in.Nodes {
		want[clustercontrol.ID{Kind: clustercontrol.KindNode, ID: node.Name}] = NodeRegistration(node)
	}
	for _, ds := range in.Datastores {
		id := DatastoreID(ds)
		switch _, malformed := ds.Annotations[v1alpha1.AnnotationUndecodable]; {
		case malformed: // which driver it has cannot be read
			keep.Insert(clustercontrol.ID{Kind: clustercontrol.KindDatastore, ID: id.ID}, clustercontrol.ID{Kind: clustercontrol.KindCache, ID: id.ID})
		case Validated(ds) || in.Registered.Has(id):
			want[id] = DatastoreRegistration(ds)
		}
	}
	var changes []clustercontrol.Registration
	for id := range in.Registered {
		_, wanted := want[id]
		unknown := id.Kind == clustercontrol.KindNode && in.Nodes == nil
		if wanted || unknown || keep.Has(id) || in.Told[id].Action == clustercontrol.ActionDeregister {
			continue
		}
		changes = append(changes, clustercontrol.Registration{Kind: id.Kind, ID: id.ID, Action: clustercontrol.ActionDeregister})
	}
	for id, r := range want {
		if told, before := in.Told[id]; !before || !equality.Semantic.DeepEqual(told, r) {
			changes = append(changes, r)
		}
	}
	slices.SortFunc(changes, func(a, b clustercontrol.Registration) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) // what has gone comes first
	})
	return changes
}

// IDs are those of registrations with an action, in a fixed order.
func IDs(changes []clustercontrol.Registration, action clustercontrol.Action) []clustercontrol.ID {
	ids := map[clustercontrol.ID]bool{}
	for _, r := range changes {
		if r.Action == action {
			ids[clustercontrol.ID{Kind: r.Kind, ID: r.ID}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(ids), CompareIDs)
}

// CompareIDs orders ids.
func CompareIDs(a, b clustercontrol.ID) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}
