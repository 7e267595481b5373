// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

func TestIndexes(t *testing.T) {
	kinds := formspecinformers.NewSharedInformerFactory(formspecfake.NewClientset(), 0).Formspec().V1alpha1()
	workspaces, claims, datastores := kinds.Workspaces().TypedInformer(), kinds.ResourceClaims().TypedInformer(), kinds.Datastores().TypedInformer()
	for range 2 { // each controller adds what it needs
		if err := errors.Join(index.Workspaces(workspaces), index.Claims(claims), index.Datastores(datastores)); err != nil {
			t.Fatal(err)
		}
	}
	in := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	long := strings.Repeat("long", 40)
	var errs []error
	for _, name := range []string{"shop", long} {
		errs = append(errs, workspaces.GetIndexer().Add(&v1alpha1.Workspace{ObjectMeta: in("bank", name), Spec: v1alpha1.WorkspaceSpec{
			ClusterClass: "std", Datastores: []v1alpha1.DatastoreReference{{Name: "pg"}}, Cache: []v1alpha1.DatastoreReference{{Name: "valkey"}},
		}}))
	}
	errs = append(errs, workspaces.GetIndexer().Add(&v1alpha1.Workspace{ObjectMeta: in("other", "shop")}))
	for _, namespace := range []string{"bank", "other"} {
		errs = append(errs,
			claims.GetIndexer().Add(&v1alpha1.ResourceClaim{ObjectMeta: in(namespace, "claim"), Spec: v1alpha1.ResourceClaimSpec{Datastore: "pg", Workspace: "shop"}}),
			datastores.GetIndexer().Add(&v1alpha1.Datastore{ObjectMeta: in(namespace, "pg"), Spec: v1alpha1.DatastoreSpec{EndpointSecretRef: v1alpha1.SecretKeyReference{Name: "creds"}}}))
	}
	errs = append(errs, datastores.GetIndexer().Add(&v1alpha1.Datastore{
		ObjectMeta: in("bank", "owned"), Spec: v1alpha1.DatastoreSpec{Owner: "now"}, Status: v1alpha1.DatastoreStatus{ListedOwner: "before"},
	}))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	keysOf := func(name, value string) (found []string) {
		for _, indexer := range []interface {
			IndexKeys(name, value string) ([]string, error)
		}{workspaces.GetIndexer(), claims.GetIndexer(), datastores.GetIndexer()} {
			if keys, err := indexer.IndexKeys(name, value); err == nil {
				found = append(found, keys...)
			}
		}
		slices.Sort(found)
		return found
	}
	for _, row := range []struct {
		index, value string
		want         []string
	}{
		{index.WorkspacesByClass, "std", []string{"bank/" + long, "bank/shop"}},
		{index.WorkspacesByDatastore, index.Key("bank", "pg"), []string{"bank/" + long, "bank/shop"}},
		{index.WorkspacesByDatastore, index.Key("bank", "valkey"), []string{"bank/" + long, "bank/shop"}},
		{index.WorkspacesByDatastore, index.Key("other", "pg"), nil},
		{index.WorkspacesByLabel, index.Key("bank", "shop"), []string{"bank/shop"}},
		{index.WorkspacesByLabel, index.Key("bank", names.Label(long)), []string{"bank/" + long}},
		{index.ClaimsByWorkspace, index.Key("bank", "shop"), []string{"bank/claim"}},
		{index.ClaimsByDatastore, index.Key("other", "pg"), []string{"other/claim"}},
		{index.ClaimsByDatastore, index.Key("bank", "shop"), nil},
		{index.DatastoresBySecret, index.Key("bank", "creds"), []string{"bank/pg"}},
		{index.DatastoresBySecret, index.Key("", "creds"), nil},
		{index.DatastoresByOwner, "now", []string{"bank/owned"}},
		{index.DatastoresByOwner, "before", nil},
		{index.DatastoresByOwner, "", nil},
		{index.DatastoresByListedOwner, "before", []string{"bank/owned"}},
		{index.DatastoresByListedOwner, "now", nil},
		{index.DatastoresByListedOwner, "", nil},
	} {
		if got := keysOf(row.index, row.value); !slices.Equal(got, row.want) {
			t.Errorf("%s of %q finds %q, want %q", row.index, row.value, got, row.want)
		}
	}
}
