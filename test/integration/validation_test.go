// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// What Kubernetes could never run is refused before it is stored, with the field that is wrong; whatever was valid once stays so. FR-55.
func TestValidation(t *testing.T) {
	t.Parallel()
	s := given(t)
	const (
		workspace = "Workspace"
		class     = "ClusterClass"
		datastore = "Datastore"
		claim     = "ResourceClaim"
		endpoint  = "endpointSecretRef: {name: pg, key: dsn}, "
		grant     = "datastore: pg, workspace: shop, "
	)
	for _, row := range []struct {
		kind, spec string
		field      string // that the refusal names; empty: it is accepted
	}{
		{workspace, "{clusterClass: any}", ""},
		{workspace, "{}", "spec.clusterClass"},
		{workspace, "{clusterClass: ''}", "spec.clusterClass"},
		{workspace, "{clusterClass: any, resources: {cpu: lots}}", "spec.resources.cpu"},
		{workspace, "{clusterClass: any, resources: {cpu: '-1'}}", "spec.resources.cpu"},
		{workspace, "{clusterClass: any, resources: {memory: 4 gigs}}", "spec.resources.memory"},
		{workspace, "{clusterClass: any, resources: {memory: -4Gi}}", "spec.resources.memory"},
		{workspace, "{clusterClass: any, environment: production}", "spec.environment"},
		{workspace, "{clusterClass: any, region: in the east}", "spec.region"},
		{workspace, "{clusterClass: any, hosts: [shop.example.com]}", ""},
		{workspace, "{clusterClass: any, hosts: [Shop_1.example.com]}", "spec.hosts[0]"},
		{workspace, "{clusterClass: any, size: big}", "spec.size"},
		{workspace, "{clusterClass: any, datastores: [{name: pg, type: anything}]}", ""},

		{class, "{}", ""},
		{class, "{nodeType: of another tool, availability: of another tool, sla: any}", ""},
		{class, "{maxWorkspaces: -1}", "spec.maxWorkspaces"},
		{class, "{scaling: {minReplicas: -1}}", "spec.scaling.minReplicas"},
		{class, "{scaling: {minReplicas: 2, maxReplicas: 1}}", "spec.scaling: Invalid value: maxReplicas must not be less than minReplicas"},
		{class, "{scaling: {maxReplicas: 0}}", "spec.scaling.maxReplicas"},
		{class, "{scaling: {idleAfter: 1h30m}}", ""},
		{class, "{scaling: {idleAfter: five minutes}}", "spec.scaling.idleAfter"},
		{class, "{scaling: {idleAfter: -5m}}", "spec.scaling.idleAfter"},
		{class, "{scaling: {spread: Sometimes}}", "spec.scaling.spread"},
		{class, "{pricing: {baseMonthly: -1}}", "spec.pricing.baseMonthly"},
		{class, "{hostSuffixes: [.example.com]}", "spec.hostSuffixes[0]"},
		{class, "{resourceImage: two words}", "spec.resourceImage"},

		{datastore, "{" + endpoint + "driver: postgres}", ""},
		{datastore, "{" + endpoint + "driver: oracle}", "spec.driver"},
		{datastore, "{" + endpoint + "}", "spec.driver"},
		{datastore, "{driver: postgres}", "spec.endpointSecretRef"},
		{datastore, "{driver: postgres, endpointSecretRef: {name: pg}}", "spec.endpointSecretRef.key"},
		{datastore, "{" + endpoint + "driver: postgres, capacity: {maxConnections: -1}}", "spec.capacity.maxConnections"},
		{datastore, "{" + endpoint + "driver: postgres, capacity: {storageGB: -1}}", "spec.capacity.storageGB"},
		{datastore, "{" + endpoint + "driver: postgres, roles: Everybody}", "spec.roles"},
		{datastore, "{" + endpoint + "driver: postgres, grantsNotBefore: yesterday}", "spec.grantsNotBefore"},

		{claim, "{" + grant + "permission: read-write, signature: hex-encoded-ed25519}", ""},
		{claim, "{" + grant + "grantedAt: any, signature: any}", ""},
		{claim, "{workspace: shop}", "spec.datastore"},
		{claim, "{datastore: pg}", "spec.workspace"},
		{claim, "{" + grant + "permission: admin}", "spec.permission"},
		{claim, "{" + grant + "grantVersion: 3}", "spec.grantVersion"},
		{claim, "{" + grant + "grantVersion: 2, expiresAt: '2027-01-01T00:00:00Z'}", ""},
		{claim, "{" + grant + "grantVersion: 2, expiresAt: tomorrow}", "spec.expiresAt"},
		{claim, "{" + grant + "maxConnections: 0}", "spec.maxConnections"},
	} {
		err := s.dryRun(row.kind, row.spec)
		switch {
		case row.field == "" && err != nil:
			t.Errorf("%s %s is refused: %v", row.kind, row.spec, err)
		case row.field != "" && err == nil:
			t.Errorf("%s %s is accepted", row.kind, row.spec)
		case row.field != "" && !strings.Contains(err.Error(), row.field):
			t.Errorf("%s %s: the refusal does not name %q: %v", row.kind, row.spec, row.field, err)
		}
	}
}

// dryRun asks the API server, as "kubectl apply --dry-run=server" does.
func (s *scenario) dryRun(kind, spec string) error {
	s.Helper()
	object := &unstructured.Unstructured{}
	text := fmt.Sprintf("{apiVersion: formspec.dev/v1alpha1, kind: %s, metadata: {generateName: dry-}, spec: %s}", kind, spec)
	s.must("decode "+text, yaml.Unmarshal([]byte(text), &object.Object))
	resources := s.dynamic.Resource(schema.GroupVersionResource{
		Group: "formspec.dev", Version: "v1alpha1", Resource: map[string]string{
			"Workspace": "workspaces", "ClusterClass": "clusterclasses", "Datastore": "datastores", "ResourceClaim": "resourceclaims",
		}[kind],
	})
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	if kind == "ClusterClass" {
		_, err := resources.Create(s.Context(), object, options)
		return err
	}
	_, err := resources.Namespace(s.namespace).Create(s.Context(), object, options)
	return err
}
