// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// A new operator catches up with what happened while there was none.
func datastoresAcrossRestarts(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	me, class := s.publishedOwner(), s.class()
	users := map[string]*login{}
	var shops []*tenant
	for i := range 10 {
		pg, name := fmt.Sprintf("pg-%d", i/2), fmt.Sprintf("shop-%d", i)
		if users[pg] == nil {
			users[pg] = s.login()
			me.datastore(pg, v1alpha1.DriverPostgres, users[pg].uri())
		}
		me.grant(name, pg, name)
		shops = append(shops, s.workspace(name, class, lists(pg, v1alpha1.DriverPostgres)))
	}
	for _, shop := range shops {
		shop.ready()
	}

	// when
	before, revisions := s.credentials("shop-0"), map[string]int{}
	for _, shop := range shops {
		revisions[shop.name] = len(shop.replicaSets())
	}
	s.whileStopped(func() {
		for _, name := range []string{"shop-0", "shop-2"} {
			s.must("delete a Workspace", s.formspec.FormspecV1alpha1().Workspaces(s.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		shops[2].patch(`{"metadata":{"finalizers":null}}`)
		(&grant{scenario: s, name: "shop-5"}).delete()
		users["pg-3"].changePassword("changed")
		(&store{scenario: s, name: "pg-3"}).connect(users["pg-3"].uri())
		(&store{scenario: s, name: "pg-4"}).delete()
	})

	// then
	for _, name := range []string{"shop-0", "shop-2"} {
		s.eventually(name+" is gone and its credentials are kept", func() error {
			if _, err := s.formspec.FormspecV1alpha1().Workspaces(s.namespace).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is still there"), err)
			}
			if labels := s.credentials(name).Labels; labels[v1alpha1.LabelRetained] != "true" {
				return fmt.Errorf("its credentials have the labels %v", labels)
			}
			return nil
		})
	}
	shops[5].injects().failing(v1alpha1.ReasonClaimMissing)
	for _, shop := range shops[6:8] {
		s.eventually(shop.name+" has the new password", func() error {
			values, err := shop.environmentOf()
			if have := values["FORMSPEC_DATASTORE_PG_3_PASSWORD"]; err == nil && have != "changed" {
				return fmt.Errorf("it has %q", have)
			}
			return err
		})
		s.eventually(shop.name+" has rolled once", func() error { // the Secret is written before the Deployment
			if have := len(shop.replicaSets()); have != revisions[shop.name]+1 {
				return fmt.Errorf("%s has %d ReplicaSets, and had %d", shop.name, have, revisions[shop.name])
			}
			return nil
		})
		shop.ready()
	}
	shops[8].injects().failing(v1alpha1.ReasonDatastoreNotFound)

	// when
	shop := s.workspace("shop-0", class, lists("pg-0", v1alpha1.DriverPostgres)).ready()

	// then
	after := s.credentials("shop-0")
	if after.UID != before.UID || !equality.Semantic.DeepEqual(after.Data, before.Data) || after.Labels[v1alpha1.LabelRetained] != "" {
		t.Errorf("the credentials were not adopted as they were")
	}
	shop.injects(variables("pg-0", parts...)...)
}
