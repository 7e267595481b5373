// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

func datastore(name string, driver v1alpha1.Driver, validated bool) *v1alpha1.Datastore {
	ds := &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, Labels: map[string]string{"formspec.dev/zone": "a", "team": "private"}},
		Spec: v1alpha1.DatastoreSpec{
			Driver: driver, EndpointSecretRef: v1alpha1.SecretKeyReference{Name: "secret", Key: "url"}, Owner: "owner",
			Capacity: v1alpha1.DatastoreCapacity{MaxConnections: 100},
		},
	}
	if validated {
		ds.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionValidated, Status: metav1.ConditionTrue}}
	}
	return ds
}

func id(text string) clustercontrol.ID {
	kind, name, _ := strings.Cut(text, " ")
	return clustercontrol.ID{Kind: clustercontrol.Kind(kind), ID: name}
}

func ids(texts ...string) sets.Set[clustercontrol.ID] {
	set := sets.New[clustercontrol.ID]()
	for _, text := range texts {
		set.Insert(id(text))
	}
	return set
}

// deregistered is what a leader remembers of what it took back.
func deregistered(text string) map[clustercontrol.ID]clustercontrol.Registration {
	return map[clustercontrol.ID]clustercontrol.Registration{id(text): {Kind: id(text).Kind, ID: id(text).ID, Action: clustercontrol.ActionDeregister}}
}

func TestChanges(t *testing.T) {
	nodes := func(names ...string) []*corev1.Node {
		list := []*corev1.Node{}
		for _, name := range names {
			list = append(list, node(name))
		}
		return list
	}
	malformed := datastore("odd", "", false)
	malformed.Annotations = map[string]string{v1alpha1.AnnotationUndecodable: "spec.driver"}
	works := []*v1alpha1.Datastore{datastore("pg", v1alpha1.DriverPostgres, true)}
	worksNot := []*v1alpha1.Datastore{datastore("pg", v1alpha1.DriverPostgres, false)}
	registered := func(node *corev1.Node) map[clustercontrol.ID]clustercontrol.Registration {
		return map[clustercontrol.ID]clustercontrol.Registration{id("node n1"): report.NodeRegistration(node)}
	}
	for name, row := range map[string]struct {
		in   report.Inventory
		want []string
	}{
		"a cluster without anything": {report.Inventory{Nodes: nodes()}, nil},
		"a new leader registers everything": {
			report.Inventory{Nodes: nodes("n2", "n1"), Datastores: works, Registered: ids("node n1")},
			[]string{"register datastore bank/pg", "register node n1", "register node n2"},
		},
		"what went while nobody led comes first": {
			report.Inventory{Nodes: nodes("n1"), Registered: ids("node n0", "datastore bank/old")},
			[]string{"deregister datastore bank/old", "deregister node n0", "register node n1"},
		},
		"nodes that cannot be read are left alone": {
			report.Inventory{Registered: ids("node n0", "cache bank/old")},
			[]string{"deregister cache bank/old"},
		},
		"nothing is told twice": {
			report.Inventory{Nodes: nodes("n1"), Registered: ids("node n1"), Told: registered(node("n1"))},
			nil,
		},
		"a change is told": {
			report.Inventory{Nodes: nodes("n1"), Registered: ids("node n1"), Told: registered(&corev1.Node{})},
			[]string{"register node n1"},
		},
		"a deregistration is told once":  {report.Inventory{Nodes: nodes(), Registered: ids("node n1"), Told: deregistered("node n1")}, nil},
		"what comes back is registered":  {report.Inventory{Nodes: nodes("n1"), Registered: ids("node n1"), Told: deregistered("node n1")}, []string{"register node n1"}},
		"a datastore that never worked":  {report.Inventory{Datastores: worksNot}, nil},
		"a datastore that worked before": {report.Inventory{Datastores: worksNot, Registered: ids("datastore bank/pg")}, []string{"register datastore bank/pg"}},
		"a datastore that becomes a cache": {
			report.Inventory{Datastores: []*v1alpha1.Datastore{datastore("kv", v1alpha1.DriverValkey, true)}, Registered: ids("datastore bank/kv")},
			[]string{"deregister datastore bank/kv", "register cache bank/kv"},
		},
		"a datastore that cannot be read is left alone": {
			report.Inventory{Datastores: []*v1alpha1.Datastore{malformed}, Registered: ids("datastore bank/odd", "cache bank/odd")},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range report.Changes(row.in) {
				got = append(got, string(r.Action)+" "+string(r.Kind)+" "+r.ID)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestIDs(t *testing.T) {
	changes := report.Changes(report.Inventory{Nodes: []*corev1.Node{node("n2"), node("n1")}, Registered: ids("node n0")})
	if got := report.IDs(changes, clustercontrol.ActionRegister); !slices.Equal(got, []clustercontrol.ID{id("node n1"), id("node n2")}) {
		t.Errorf("registered: %v", got)
	}
	if got := report.IDs(changes, clustercontrol.ActionDeregister); !slices.Equal(got, []clustercontrol.ID{id("node n0")}) {
		t.Errorf("deregistered: %v", got)
	}
}

func TestDatastoreRegistrationTellsNoSecret(t *testing.T) {
	r := report.DatastoreRegistration(datastore("pg", v1alpha1.DriverPostgres, true))
	if len(r.Labels) != 2 || r.Labels["formspec.dev/zone"] != "a" || r.Labels["formspec.dev/driver"] != "postgres" {
		t.Errorf("labels %v", r.Labels)
	}
	if len(r.Capacity) != 1 || r.Capacity["max_connections"] != 100 {
		t.Errorf("capacity %v", r.Capacity)
	}
	for driver, want := range map[v1alpha1.Driver]clustercontrol.Kind{
		v1alpha1.DriverPostgres: clustercontrol.KindDatastore, v1alpha1.DriverS3: clustercontrol.KindDatastore, v1alpha1.DriverNATS: clustercontrol.KindDatastore,
		v1alpha1.DriverRedis: clustercontrol.KindCache, v1alpha1.DriverValkey: clustercontrol.KindCache, v1alpha1.DriverMemory: clustercontrol.KindCache,
	} {
		if got := report.DatastoreID(datastore("x", driver, true)); got.Kind != want || got.ID != "bank/x" {
			t.Errorf("%s: %v, want %s", driver, got, want)
		}
	}
}
