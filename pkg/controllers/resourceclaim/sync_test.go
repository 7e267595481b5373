// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
)

// shared is a Datastore without logins of claims.
func shared(ds *v1alpha1.Datastore) { ds.Spec.Roles = v1alpha1.RolesShared }

func (f *fixture) expectReady(status metav1.ConditionStatus, reason string) {
	f.t.Helper()
	claim := f.claim()
	c := meta.FindStatusCondition(claim.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status != status || c.Reason != reason {
		f.t.Errorf("Ready is %+v, want %s %s", c, status, reason)
	}
	if denied := meta.IsStatusConditionTrue(claim.Status.Conditions, v1alpha1.ConditionDenied); denied != (status == metav1.ConditionFalse) {
		f.t.Errorf("Denied is %v while Ready is %s", denied, status)
	}
}

func TestSync(t *testing.T) {
	const update = "update resourceclaims/status"
	for name, row := range map[string]struct {
		objects func() []runtime.Object
		status  metav1.ConditionStatus
		reason  string
		after   time.Duration
		event   string
	}{
		"approved": {
			func() []runtime.Object { return []runtime.Object{aDatastore(shared), aClaim("shop-pg"), aWorkspace()} },
			metav1.ConditionTrue, v1alpha1.ReasonClaimVerified, 0, "Normal ClaimVerified",
		},
		"without a Datastore": {
			func() []runtime.Object { return []runtime.Object{aClaim("shop-pg"), aWorkspace()} },
			metav1.ConditionFalse, v1alpha1.ReasonDatastoreNotFound, 0, "Warning DatastoreNotFound",
		},
		"without a Workspace": {
			func() []runtime.Object { return []runtime.Object{aDatastore(shared), aClaim("shop-pg")} },
			metav1.ConditionFalse, v1alpha1.ReasonWorkspaceNotFound, 0, "Warning WorkspaceNotFound",
		},
		"another was granted later": {
			func() []runtime.Object {
				later := aClaim("later", func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = ago(time.Minute) })
				return []runtime.Object{aDatastore(shared), aClaim("shop-pg"), later, aWorkspace()}
			},
			metav1.ConditionFalse, v1alpha1.ReasonSuperseded, 0, "Warning Superseded",
		},
		"it begins in a while": {
			func() []runtime.Object {
				early := aClaim("shop-pg", func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = ago(-time.Hour) })
				return []runtime.Object{aDatastore(shared), early, aWorkspace()}
			},
			metav1.ConditionFalse, v1alpha1.ReasonNotYetValid, 59 * time.Minute, "Warning NotYetValid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWith(t, row.objects, func(f *fixture) {
				writes, after := f.syncOnce()
				if !slices.Equal(writes, []string{update}) || after != row.after {
					t.Errorf("writes %q and looks again after %s, want %s", writes, after, row.after)
				}
				f.expectReady(row.status, row.reason)
				if len(f.events) != 1 || !strings.HasPrefix(f.events[0], row.event+" ") {
					t.Errorf("events %q, want %s", f.events, row.event)
				}
				f.events = nil
				if writes, after := f.syncOnce(); len(writes) > 0 || after != row.after || len(f.events) > 0 {
					t.Errorf("at rest it writes %q, tells %q and looks again after %s", writes, f.events, after)
				}
				f.expectCalls()
			})
		})
	}
}

func TestAGrantThatBeginsLater(t *testing.T) {
	runWith(t, func() []runtime.Object {
		claim := aClaim("shop-pg", func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = ago(-time.Hour) })
		return []runtime.Object{aDatastore(shared), claim, aWorkspace()}
	}, func(f *fixture) {
		_, after := f.syncOnce()
		<-time.After(after)
		if _, after = f.syncOnce(); after != 0 {
			t.Errorf("it looks again after %s, and nothing changes by itself", after)
		}
		f.expectReady(metav1.ConditionTrue, v1alpha1.ReasonClaimVerified)
	})
}

func TestAClaimThatIsGone(t *testing.T) {
	run(t, func(f *fixture) {
		f.settle()
		f.must(f.formspec.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("resourceclaims"), "bank", "shop-pg"))
		if writes, _ := f.syncOnce(); len(writes) > 0 {
			t.Errorf("writes %q", writes)
		}
		if len(f.logins.attempts) > 0 {
			t.Error("something is remembered of it")
		}
		f.crashed(t.Context(), bankClaim)
	})
}

func TestFailures(t *testing.T) {
	broken := errors.New("no answer")
	denied := apierrors.NewForbidden(corev1.Resource("secrets"), "formspec-claim-shop-pg", errors.New("a policy says no"))
	for name, row := range map[string]struct {
		verb, resource string
		fails          error
		refused        bool
	}{
		"the finalizer cannot be written": {"patch", "resourceclaims", broken, false},
		"the status cannot be written":    {"update", "resourceclaims", broken, false},
		"the Secret cannot be written":    {"patch", "secrets", broken, false},
		"a policy refuses the Secret":     {"patch", "secrets", denied, true},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(f *fixture) {
				fail := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, row.fails }
				if row.resource == "secrets" {
					f.syncOnce() // makes the login
					f.kube.PrependReactor(row.verb, row.resource, fail)
				} else {
					f.formspec.PrependReactor(row.verb, row.resource, fail)
				}
				f.did()
				before := f.claim()
				after, err := f.sync(t.Context(), bankClaim)
				synctest.Wait()
				if !errors.Is(err, row.fails) {
					t.Errorf("error %v, want %v", err, row.fails)
				}
				if row.refused {
					if f.expectRole(metav1.ConditionFalse, v1alpha1.ReasonRefused); after != 30*time.Second {
						t.Errorf("it is tried again after %s", after)
					}
					return
				}
				if got := f.claim(); len(got.Status.Conditions) != len(before.Status.Conditions) {
					t.Errorf("it says %+v about a fault that passes", got.Status)
				}
				if row.resource == "resourceclaims" && row.verb == "patch" {
					f.expectCalls() // nothing is made that nothing would drop
				}
			})
		})
	}
}

// behind says how far a cache has come.
type behind string

func (s behind) LastStoreSyncResourceVersion() string { return string(s) }

func TestASyncWaitsUntilTheCacheHasSeenTheLastOne(t *testing.T) {
	run(t, func(f *fixture) {
		f.memory.Wrote(bankClaim, behind("7"), "8")
		if _, err := f.sync(t.Context(), bankClaim); !errors.Is(err, worker.ErrStale) || len(f.claim().Status.Conditions) > 0 {
			t.Errorf("error %v, want a stale cache and nothing done", err)
		}
	})
}

func TestAPanicIsShown(t *testing.T) {
	run(t, func(f *fixture) {
		f.crashed(t.Context(), bankClaim)
		if c := meta.FindStatusCondition(f.claim().Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != v1alpha1.ReasonInternalError {
			t.Errorf("Ready is %+v, want InternalError", c)
		}
		f.crashed(t.Context(), cache.NewObjectName("bank", "another")) // is no more
	})
}
