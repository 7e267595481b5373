// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grants_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/grants"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// start is when everything is judged.
var start = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)

// The keys of the owner, and the one that the Datastores state.
var (
	ownerKey  = ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize)))
	statedKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", ed25519.SeedSize)))
)

func public(key ed25519.PrivateKey) string {
	return v1alpha1.FormatPublicKey(key.Public().(ed25519.PublicKey))
}

func datastore(name string, change ...func(*v1alpha1.Datastore)) *v1alpha1.Datastore {
	ds := &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name},
		Spec:       v1alpha1.DatastoreSpec{Owner: "owner", OwnerPublicKey: public(statedKey), AllowedTenants: []string{"*"}},
	}
	for _, f := range change {
		f(ds)
	}
	return ds
}

// claim of the workspace "shop", granted that long before the start.
func claim(name, datastore string, ago time.Duration, key ed25519.PrivateKey, change ...func(*v1alpha1.ResourceClaim)) *v1alpha1.ResourceClaim {
	c := &v1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, Generation: 1},
		Spec: v1alpha1.ResourceClaimSpec{
			Datastore: datastore, Workspace: "shop", Permission: v1alpha1.PermissionReadWrite, GrantedBy: "owner", GrantedAt: start.Add(-ago).Format(time.RFC3339),
		},
	}
	for _, f := range change {
		f(c)
	}
	c.Spec.Signature, _ = v1alpha1.SignGrant(c, "", key)
	return c
}

func published() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "formspec-system", Name: v1alpha1.OwnerKeysConfigMap}, Data: map[string]string{"owner": public(ownerKey)},
	}
}

// judged gives the test a judge who has read these objects, and the ConfigMap unless it is nil.
func judged(t *testing.T, config *corev1.ConfigMap, objects []runtime.Object, test func(*grants.Judge)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		kube := kubefake.NewClientset()
		if config != nil {
			kube = kubefake.NewClientset(config)
		}
		own := formspecinformers.NewSharedInformerFactory(formspecfake.NewClientset(objects...), 0)
		kinds, keys := own.Formspec().V1alpha1(), ownerkeys.New(kube, "formspec-system")
		if err := index.Claims(kinds.ResourceClaims().TypedInformer()); err != nil {
			t.Fatal(err)
		}
		judge := grants.NewJudge(keys, resourceclaim.Settings{MinGrantVersion: 1, TrustDatastoreKeys: true}, kinds.ResourceClaims(), kinds.Datastores(), kinds.Workspaces())
		kinds.Datastores().Informer()
		kinds.Workspaces().Informer()
		if err := keys.OnChange(ctx, func() {}); err != nil {
			t.Fatal(err)
		}
		keys.Start(ctx)
		own.StartWithContext(ctx)
		keys.Wait(ctx)
		if err := own.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
			t.Fatal(err)
		}
		test(judge)
		synctest.Wait()
		cancel()
		own.Shutdown()
		keys.Shutdown()
	})
}

func TestTheClaimsOfAWorkspace(t *testing.T) {
	objects := []runtime.Object{
		datastore("pg"), datastore("cache", func(ds *v1alpha1.Datastore) { ds.Spec.AllowedTenants = nil }),
		claim("older", "pg", 2*time.Hour, ownerKey), claim("newer", "pg", time.Hour, ownerKey), claim("forged", "pg", time.Minute, statedKey),
		claim("z", "cache", time.Hour, ownerKey), claim("a", "missing", time.Hour, ownerKey),
		claim("others", "pg", 0, ownerKey, func(c *v1alpha1.ResourceClaim) { c.Spec.Workspace = "another" }),
		claim("elsewhere", "pg", 0, ownerKey, func(c *v1alpha1.ResourceClaim) { c.Namespace = "other" }),
	}
	judged(t, published(), objects, func(judge *grants.Judge) {
		verdicts, err := judge.OfWorkspace(cache.NewObjectName("bank", "shop"), start)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, j := range verdicts {
			got = append(got, fmt.Sprintf("%s %v %s", j.Claim.Name, j.Verdict.Approved, j.Verdict.Reason))
		}
		want := []string{
			"z false TenantNotAllowed", "a false DatastoreNotFound", "forged false SignatureMismatch", "newer true ClaimVerified", "older false Superseded",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the verdicts are\n%q, want\n%q", got, want)
		}
		// Each of them alone is judged alike, but for the Workspace, which there is not.
		for _, j := range verdicts {
			in, err := judge.Input(j.Claim, start)
			if err != nil || in.WorkspaceExists {
				t.Fatalf("error %v, and the Workspace exists", err)
			}
			in.WorkspaceExists = true
			if alone := resourceclaim.Judge(*in); alone.Approved != j.Verdict.Approved || alone.Reason != j.Verdict.Reason {
				t.Errorf("%s is %v %s alone, and %v %s with the others", j.Claim.Name, alone.Approved, alone.Reason, j.Verdict.Approved, j.Verdict.Reason)
			}
		}
	})
}

func TestWhichKeysCount(t *testing.T) {
	listed := func(ds *v1alpha1.Datastore) { ds.Status.KeyListed = true }
	unstated := func(ds *v1alpha1.Datastore) { ds.Spec.OwnerPublicKey = "" }
	stranger := func(ds *v1alpha1.Datastore) { ds.Spec.Owner = "stranger" }
	for name, row := range map[string]struct {
		config *corev1.ConfigMap
		change func(*v1alpha1.Datastore)
		want   resourceclaim.KeysState
	}{
		"published":            {published(), listed, resourceclaim.KeysPublished},
		"published for others": {published(), stranger, resourceclaim.KeysNoEntry},
		"never published, and the Datastore states one":    {nil, func(*v1alpha1.Datastore) {}, resourceclaim.KeysNoEntry},
		"never published, and the Datastore states none":   {nil, unstated, resourceclaim.KeysUnavailable},
		"published once, and gone: no weaker key steps in": {nil, listed, resourceclaim.KeysUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			judged(t, row.config, []runtime.Object{datastore("pg", row.change)}, func(judge *grants.Judge) {
				in, err := judge.Input(claim("c", "pg", time.Hour, ownerKey), start)
				if err != nil || in.OwnerKeys.State != row.want {
					t.Errorf("the keys are in state %d (%v), want %d", in.OwnerKeys.State, err, row.want)
				}
			})
		})
	}
}
