// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

const (
	isTrue    = metav1.ConditionTrue
	isFalse   = metav1.ConditionFalse
	isUnknown = metav1.ConditionUnknown
)

func TestFromTheSecretToCredentialsInForce(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		if requests, _ := f.syncOnce(); !slices.Equal(requests, []string{"update datastores/status"}) {
			t.Errorf("requests %q", requests)
		}
		f.expect(isFalse, v1alpha1.ReasonSecretNotFound, `"creds"`, `"dsn"`)

		f.secret("dsn", good+"\n")
		if woken := f.woken(); !slices.Equal(woken, []string{"bank/pg"}) {
			t.Errorf("the Secret wakes %q", woken)
		}
		if requests, _ := f.syncOnce(); !slices.Equal(requests, []string{"get secrets", "update datastores/status"}) {
			t.Errorf("requests %q, want one read and the status", requests)
		}
		f.expect(isUnknown, v1alpha1.ReasonProbing)
		if f.managed() != nil {
			t.Error("credentials are in force before they were tried")
		}
		f.expectProbes("app")
		if woken := f.woken(); !slices.Equal(woken, []string{"bank/pg"}) {
			t.Errorf("the end of the probe wakes %q", woken)
		}
		if requests, _ := f.syncOnce(); !slices.Equal(requests, []string{"patch secrets", "update datastores/status"}) {
			t.Errorf("requests %q", requests)
		}
		f.expect(isTrue, v1alpha1.ReasonValidated)
		secret := f.managed()
		if string(secret.Data["password"]) != "hunter2" || string(secret.Data["uri"]) != good || len(secret.Data["read-only-uri"]) == 0 {
			t.Errorf("the managed Secret has the wrong values in %d keys", len(secret.Data))
		}
		if owner := metav1.GetControllerOf(secret); owner == nil || owner.UID != "uid-of-pg" || secret.Annotations[v1alpha1.AnnotationRevision] == "" {
			t.Errorf("the managed Secret is of %v, with annotations %v", owner, secret.Annotations)
		}
		if !slices.ContainsFunc(f.events, func(e string) bool { return strings.HasPrefix(e, "Normal ConnectionStringTrimmed ") }) {
			t.Errorf("nobody was told of the line end: %q", f.events)
		}
		if memo := f.offers.recall(pg, time.Now()); memo.offer != nil || memo.endpoint.User() != "" {
			t.Error("the password stays in memory")
		}

		// at rest
		requests, after := f.syncOnce()
		if len(requests) > 0 || after != 10*time.Minute {
			t.Errorf("at rest it makes the requests %q and looks again after %s", requests, after)
		}
		f.expectProbes()
	})
}

func TestARotation(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.secret("dsn", good)
		f.settle()
		first := f.managed()
		f.expectProbes("app")

		// what does not work is not put in force
		f.secret("dsn", wrong)
		f.settle()
		f.expect(isFalse, v1alpha1.ReasonAuthenticationFailed, "stay in force")
		if !meta.IsStatusConditionTrue(f.datastore().Status.Conditions, v1alpha1.ConditionDenied) {
			t.Error("the server refuses it, and Denied is not True")
		}
		f.secret("dsn", "postgres://h:hunter9:x")
		f.settle()
		f.expect(isFalse, v1alpha1.ReasonInvalidConnectionString, "stay in force")
		f.secret("another", good)
		f.settle()
		f.expect(isFalse, v1alpha1.ReasonSecretKeyEmpty, "stay in force")
		if got := f.managed(); string(got.Data["password"]) != "hunter2" {
			t.Error("what worked before is not in force")
		}

		// what works gets a new revision, and the same again keeps it
		f.secret("dsn", other)
		f.settle()
		second := f.managed()
		if string(second.Data["password"]) != "hunter3" || second.Annotations[v1alpha1.AnnotationRevision] == first.Annotations[v1alpha1.AnnotationRevision] {
			t.Error("the new credentials are not in force under a new revision")
		}
		f.secret("dsn", other, "note", "somebody edits the Secret")
		f.settle()
		if third := f.managed(); third.Annotations[v1alpha1.AnnotationRevision] != second.Annotations[v1alpha1.AnnotationRevision] {
			t.Error("an edit of something else makes a new revision")
		}
		f.expect(isTrue, v1alpha1.ReasonValidated)
	})
}

func TestSomebodyChangesTheManagedSecret(t *testing.T) {
	for name, row := range map[string]struct {
		do       func(*corev1.Secret)
		restored bool
	}{
		"the password":         {func(s *corev1.Secret) { s.Data["password"] = []byte("forged") }, true},
		"a key less":           {func(s *corev1.Secret) { delete(s.Data, "host") }, true},
		"what is no part":      {func(s *corev1.Secret) { s.Data["note"] = []byte("hello") }, false},
		"somebody's own label": {func(s *corev1.Secret) { s.Labels["a"] = "b" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, aDatastore(), func(f *fixture) {
				f.secret("dsn", good)
				f.settle()
				f.expectProbes("app")
				secret := f.managed()
				revision := secret.Annotations[v1alpha1.AnnotationRevision]
				row.do(secret)
				secret.ResourceVersion = "999"
				_, err := f.kube.CoreV1().Secrets("bank").Update(t.Context(), secret, metav1.UpdateOptions{FieldManager: "somebody"})
				f.must(err)
				synctest.Wait()
				if woken := f.woken(); !slices.Equal(woken, []string{"bank/pg"}) {
					t.Errorf("that wakes %q", woken)
				}
				requests, _ := f.syncOnce()
				if silent := len(requests) == 0; silent == row.restored {
					t.Errorf("requests %q", requests)
				}
				f.settle()
				got := f.managed()
				if string(got.Data["password"]) != "hunter2" || string(got.Data["host"]) != "db.example" {
					t.Error("it is not what it was")
				}
				if same := got.Annotations[v1alpha1.AnnotationRevision] == revision; same == row.restored {
					t.Errorf("that the revision is the same is %v", same)
				}
				f.expect(isTrue, v1alpha1.ReasonValidated)
			})
		})
	}
}

func TestTheFinalizerIsThereWhileClaimsHaveLogins(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.settle()
		if got := f.datastore().Finalizers; len(got) > 0 {
			t.Errorf("finalizers %q without a login", got)
		}
		claim := aClaim("shop-pg", func(c *v1alpha1.ResourceClaim) { c.Finalizers = []string{v1alpha1.RoleFinalizer} })
		f.must(f.formspec.Tracker().Add(claim))
		synctest.Wait()
		f.settle()
		if got := f.datastore().Finalizers; !slices.Equal(got, []string{v1alpha1.DatastoreRolesFinalizer}) {
			t.Errorf("finalizers %q with a login", got)
		}

		// deleted: it waits for the login, and not for ever
		f.change(func(ds *v1alpha1.Datastore) { ds.DeletionTimestamp = new(metav1.Now()) })
		_, after := f.syncOnce()
		f.expect(isFalse, v1alpha1.ReasonTerminating)
		if after != 65*time.Second || len(f.datastore().Finalizers) != 1 {
			t.Errorf("it waits for %s with %q", after, f.datastore().Finalizers)
		}
		<-time.After(after)
		f.syncOnce()
		if got := f.datastore().Finalizers; len(got) > 0 {
			t.Errorf("finalizers %q after the deadline", got)
		}
	})
}

func TestClaimsAreCounted(t *testing.T) {
	run(t, aDatastore(func(ds *v1alpha1.Datastore) { ds.Spec.Capacity.MaxConnections = 5 }), func(f *fixture) {
		for name, c := range map[string]*v1alpha1.ResourceClaim{
			"a": aClaim("a", approve, connections(3)), "b": aClaim("b", approve), "denied": aClaim("denied", connections(9)),
			"another datastore's": aClaim("c", approve, func(c *v1alpha1.ResourceClaim) { c.Spec.Datastore = "another" }),
			"in an outage of the keys": aClaim("d", approve, connections(3), func(c *v1alpha1.ResourceClaim) {
				meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
					Type: v1alpha1.ConditionReady, Status: isUnknown, Reason: v1alpha1.ReasonOwnerKeysUnavailable,
				})
			}),
		} {
			if err := f.formspec.Tracker().Add(c); err != nil {
				t.Fatal(name, err)
			}
		}
		f.settle()
		status := f.datastore().Status
		if status.Claims != 3 || status.ClaimedConnections != 6 || !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionOvercommitted) {
			t.Errorf("%d claims with %d connections, conditions %+v", status.Claims, status.ClaimedConnections, status.Conditions)
		}
	})
}

func aClaim(name string, changes ...func(*v1alpha1.ResourceClaim)) *v1alpha1.ResourceClaim {
	claim := &v1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, UID: types.UID("uid-of-" + name), Generation: 1},
		Spec:       v1alpha1.ResourceClaimSpec{Datastore: "pg", Workspace: "shop"},
	}
	for _, change := range changes {
		change(claim)
	}
	return claim
}

func approve(claim *v1alpha1.ResourceClaim) {
	for conditionType, status := range map[string]metav1.ConditionStatus{v1alpha1.ConditionReady: isTrue, v1alpha1.ConditionDenied: isFalse} {
		meta.SetStatusCondition(&claim.Status.Conditions, metav1.Condition{Type: conditionType, Status: status, Reason: v1alpha1.ReasonClaimVerified})
	}
}

func connections(n int32) func(*v1alpha1.ResourceClaim) {
	return func(claim *v1alpha1.ResourceClaim) { claim.Spec.MaxConnections = new(n) }
}
