// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grants_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// fixture is a judge of one of two scopes, with what its ListedHandler wakes.
type fixture struct {
	*grants.Judge
	t    *testing.T
	kube *kubefake.Clientset
	// here is what the judge judges, elsewhere the other scope.
	here, elsewhere *formspecfake.Clientset

	mu    sync.Mutex
	woken []string // Datastores
}

// trusting is a judge's settings by default.
var trusting = resourceclaim.Settings{MinGrantVersion: 1, TrustDatastoreKeys: true}

// judged gives the test a judge who has read these objects, and the ConfigMap unless it is nil. What is in the namespace "elsewhere" is in the
// other scope.
func judged(t *testing.T, config *corev1.ConfigMap, objects []runtime.Object, test func(*fixture)) {
	t.Helper()
	judgedBy(t, trusting, config, objects, test)
}

func judgedBy(t *testing.T, settings resourceclaim.Settings, config *corev1.ConfigMap, objects []runtime.Object, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fixture{t: t, kube: kubefake.NewClientset(), here: formspecfake.NewClientset(), elsewhere: formspecfake.NewClientset()}
		var errs []error
		if config != nil {
			errs = append(errs, f.kube.Tracker().Add(config))
		}
		for _, object := range objects {
			errs = append(errs, f.scopeOf(object.(metav1.Object)).Tracker().Add(object))
		}
		own, others := formspecinformers.NewSharedInformerFactory(f.here, 0), formspecinformers.NewSharedInformerFactory(f.elsewhere, 0)
		kinds, keys := own.Formspec().V1alpha1(), ownerkeys.New(f.kube, "formspec-system")
		f.Judge = grants.NewJudge(keys, settings, kinds.ResourceClaims(), kinds.Datastores(), kinds.Workspaces(), others.Formspec().V1alpha1().Datastores())
		listed := f.ListedHandler(func(ds *v1alpha1.Datastore) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.woken = append(f.woken, ds.Name)
		})
		errs = append(errs, index.Claims(kinds.ResourceClaims().TypedInformer()), keys.OnChange(ctx, func() {}))
		for _, datastores := range f.Datastores {
			_, err := datastores.AddTypedEventHandler(listed, cache.HandlerOptions{})
			errs = append(errs, index.Datastores(datastores), err)
		}
		kinds.Workspaces().Informer()
		keys.Start(ctx)
		own.StartWithContext(ctx)
		others.StartWithContext(ctx)
		keys.Wait(ctx)
		f.must(errors.Join(append(errs, own.WaitForCacheSyncWithContext(ctx).AsError(), others.WaitForCacheSyncWithContext(ctx).AsError())...))
		synctest.Wait()
		test(f)
		synctest.Wait()
		cancel()
		own.Shutdown()
		others.Shutdown()
		keys.Shutdown()
	})
}

func (f *fixture) scopeOf(object metav1.Object) *formspecfake.Clientset {
	if object.GetNamespace() == "elsewhere" {
		return f.elsewhere
	}
	return f.here
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestTheClaimsOfAWorkspace(t *testing.T) {
	objects := []runtime.Object{
		datastore("pg"), datastore("cache", func(ds *v1alpha1.Datastore) { ds.Spec.AllowedTenants = nil }),
		claim("older", "pg", 2*time.Hour, ownerKey), claim("newer", "pg", time.Hour, ownerKey), claim("forged", "pg", time.Minute, statedKey),
		claim("z", "cache", time.Hour, ownerKey), claim("a", "missing", time.Hour, ownerKey),
		claim("others", "pg", 0, ownerKey, func(c *v1alpha1.ResourceClaim) { c.Spec.Workspace = "another" }),
		claim("elsewhere", "pg", 0, ownerKey, func(c *v1alpha1.ResourceClaim) { c.Namespace = "other" }),
	}
	judged(t, published(), objects, func(judge *fixture) {
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
