// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// The credentials of a Workspace outlive it as they are, whatever becomes of claims and datastores, and the next Workspace of the name takes
// over what still has a claim, and nothing else. FR-14.
func TestCredentialsOutliveTheirWorkspace(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := given(t)
			me := s.publishedOwner()
			me.datastore("stays", v1alpha1.DriverPostgres, s.login().uri()).ready()
			goes := me.datastore("goes", v1alpha1.DriverRedis, s.redisURI()).ready()
			me.grant("stays", "stays", "shop")
			withdrawn := me.grant("goes", "goes", "shop")
			class := s.class()
			all := append(variables("stays", parts...), variables("goes", "DSN", "HOST", "PORT", "PASSWORD", "PERMISSION")...)
			shop := s.workspace("shop", class).ready().injects(all...)
			before := s.credentials("shop")

			// when
			shop.delete(policy)
			if policy != metav1.DeletePropagationOrphan {
				shop.childrenGo()
			}
			withdrawn.delete()
			goes.delete()
			(&grant{scenario: s, name: "stays"}).denied(v1alpha1.ReasonWorkspaceNotFound)
			s.workspace("another", class).ready() // the operator has seen all of that

			// then
			retained := s.credentials("shop")
			if retained.UID != before.UID || !equality.Semantic.DeepEqual(retained.Data, before.Data) {
				t.Fatalf("the credentials have not stayed as they were: %v", slices.Sorted(maps.Keys(retained.Data)))
			}
			if retained.Labels[v1alpha1.LabelRetained] != "true" {
				t.Errorf("the credentials are not marked: %v", retained.Labels)
			}

			// when
			start, record := s.now(), s.recordDeployments()
			shop = s.workspace("shop", class)

			// then
			shop.injects(variables("stays", parts...)...).ready()
			after := s.credentials("shop")
			if after.UID != before.UID || after.Labels[v1alpha1.LabelRetained] != "" {
				t.Errorf("the credentials were not adopted: %v", after.ObjectMeta)
			}
			for key, value := range after.Data {
				if string(value) != string(before.Data[key]) {
					t.Errorf("%s has changed", key)
				}
			}
			uid := shop.deployment().UID
			for _, d := range record() {
				if refs, err := injected(&d, "shop"); policy != metav1.DeletePropagationOrphan && d.UID == uid && (err != nil || len(refs) != len(variables("stays", parts...))) {
					t.Errorf("generation %d of the new Deployment has other variables: %v %v", d.Generation, refs, err)
				}
			}
			secrets, deployments := s.sent(start, about("secrets"), wrote, named(after.Name)), s.sent(start, about("deployments"), wrote)
			if len(secrets) != 1 || len(deployments) != 1 || !secrets[0].Received.Before(deployments[0].Received) {
				t.Errorf("the credentials and the Deployment were not written once each, in this order:%s%s", list(secrets), list(deployments))
			}
		})
	}
}

// credentials is the Secret of a Workspace, which must be there.
func (s *scenario) credentials(workspace string) *corev1.Secret {
	s.Helper()
	secret := s.readSecret(names.Credentials(workspace))
	if secret == nil {
		s.Fatalf("there are no credentials of Workspace %s", workspace)
	}
	return secret
}

// A partly filled Secret is completed, and what worked is not changed.
func TestCredentialsAreCompleted(t *testing.T) {
	t.Parallel()
	s := given(t)
	me := s.publishedOwner()
	me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri()).ready()
	me.grant("shop", "pg", "shop")
	shop := s.workspace("shop", s.class(), lists("pg", v1alpha1.DriverPostgres)).ready()
	before := s.credentials("shop")

	// when
	s.patchSecret(before.Name, `{"data":{"FORMSPEC_DATASTORE_PG_PASSWORD":null}}`)

	// then
	shop.injects(variables("pg", parts...)...)
	if after := s.credentials("shop"); after.UID != before.UID || !equality.Semantic.DeepEqual(after.Data, before.Data) {
		t.Errorf("the Secret is not as it was")
	}
	if have := len(shop.replicaSets()); have != 1 {
		t.Errorf("it rolled: there are %d ReplicaSets", have)
	}
}
