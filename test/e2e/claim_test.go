// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/test/servers"
)

// A signed claim brings the credentials into the pod, and they log in there. Without the claim they are gone.
func TestClaim(t *testing.T) {
	t.Parallel()
	s := given(t)
	server := servers.Postgres(t, servers.PostgresOptions{Settings: []string{"listen_addresses=*"}}) // with a password, for a moment
	server.Exec(t, "CREATE ROLE shop LOGIN PASSWORD 'shop-password'")
	_, key, err := ed25519.GenerateKey(nil)
	s.must("make a key", err)
	s.datastore("pg-main", key, fmt.Sprintf("postgres://shop:shop-password@%s:%d/postgres?sslmode=disable", s.address, server.Port))
	shop := s.workspace("shop", s.class(), func(ws *v1alpha1.Workspace) {
		ws.Spec.Datastores = []v1alpha1.DatastoreReference{{Name: "pg-main", Type: "postgres"}}
	})

	// when
	s.grant("shop-pg-main", "pg-main", "shop", key)

	// then
	shop.serving()
	shop.rolledOut()
	names := fetch[[]string](shop, "/env")
	for _, name := range []string{
		"FORMA_DATASTORE_PG_MAIN_DSN", "FORMSPEC_DATASTORE_PG_MAIN_DATABASE", "FORMSPEC_DATASTORE_PG_MAIN_DSN", "FORMSPEC_DATASTORE_PG_MAIN_HOST",
		"FORMSPEC_DATASTORE_PG_MAIN_PASSWORD", "FORMSPEC_DATASTORE_PG_MAIN_PERMISSION", "FORMSPEC_DATASTORE_PG_MAIN_PORT", "FORMSPEC_DATASTORE_PG_MAIN_USER",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing in the pod, which has %v", name, names)
		}
	}
	for _, name := range []string{"FORMSPEC_DATASTORE_PG_MAIN_DSN", "FORMA_DATASTORE_PG_MAIN_DSN"} {
		if have := fetch[struct{ User string }](shop, "/connect?name="+name); have.User != "shop" {
			t.Errorf("by %s the pod is logged in as %q", name, have.User)
		}
	}

	// when
	s.must("delete the claim", s.formspec.FormspecV1alpha1().ResourceClaims(s.namespace).Delete(s.Context(), "shop-pg-main", metav1.DeleteOptions{}))

	// then
	client := shop.client()
	s.eventually("the credentials are gone from the pod", func() error {
		var names []string
		if err := request(s.Context(), client, shop.url("/env"), &names); err != nil {
			return err
		}
		if len(names) != 1 {
			return fmt.Errorf("it has the variables %v", names)
		}
		return nil
	})
}

// datastore creates a Datastore that anybody may claim with the owner's signature, and its endpoint Secret.
func (s *scenario) datastore(name string, key ed25519.PrivateKey, connection string) {
	s.Helper()
	const endpoint = "connection-string"
	_, err := s.kube.CoreV1().Secrets(s.namespace).Create(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{endpoint: connection},
	}, metav1.CreateOptions{})
	s.must("create the Secret", err)
	_, err = s.formspec.FormspecV1alpha1().Datastores(s.namespace).Create(s.Context(), &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.DatastoreSpec{
			Driver: v1alpha1.DriverPostgres, Owner: s.owner(), AllowedTenants: []string{"*"},
			OwnerPublicKey:    v1alpha1.FormatPublicKey(key.Public().(ed25519.PublicKey)),
			EndpointSecretRef: v1alpha1.SecretKeyReference{Name: name, Key: endpoint},
		},
	}, metav1.CreateOptions{})
	s.must("create the Datastore", err)
}

// owner is one that no other scenario has.
func (s *scenario) owner() string { return s.namespace + "-owner" }

// grant creates a claim with the owner's signature.
func (s *scenario) grant(name, datastore, workspace string, key ed25519.PrivateKey) {
	s.Helper()
	claim := &v1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace},
		Spec: v1alpha1.ResourceClaimSpec{
			Datastore: datastore, Workspace: workspace, Permission: v1alpha1.PermissionReadWrite,
			GrantedBy: s.owner(), GrantedAt: time.Now().UTC().Format(time.RFC3339),
		},
	}
	var err error
	claim.Spec.Signature, err = v1alpha1.SignGrant(claim, "", key)
	s.must("sign a claim", err)
	_, err = s.formspec.FormspecV1alpha1().ResourceClaims(s.namespace).Create(s.Context(), claim, metav1.CreateOptions{})
	s.must("create the ResourceClaim", err)
}
