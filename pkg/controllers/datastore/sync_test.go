// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

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
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
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

func TestASecretThatIsEditedWhileItIsProbed(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.slow = 2 * time.Second
		f.secret("dsn", good)
		f.syncOnce()
		<-time.After(time.Second)
		f.secret("dsn", good, "note", "hello")
		f.syncOnce()
		<-time.After(3 * time.Second)
		f.settle()
		f.expect(isTrue, v1alpha1.ReasonValidated)
		f.expectProbes("app") // once
	})
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.secret("dsn", dead)
		f.syncOnce()
		f.expect(isUnknown, v1alpha1.ReasonProbing)
		f.syncOnce() // asks nobody twice
		<-time.After(5 * time.Second)
		_, after := f.syncOnce()
		f.expect(isFalse, v1alpha1.ReasonUnreachable)
		if f.expectProbes("app"); after != 5*time.Second {
			t.Errorf("it is tried again after %s", after)
		}
		<-time.After(after)
		f.syncOnce()
		<-time.After(5 * time.Second)
		if _, after = f.syncOnce(); after != 10*time.Second {
			t.Errorf("it is tried a third time after %s", after)
		}
		f.secret("dsn", good)
		f.settle()
		f.expect(isTrue, v1alpha1.ReasonValidated)
	})
}

func TestCredentialsInForceAreProbedFromTimeToTime(t *testing.T) {
	probedAfter := func(t *testing.T, ds *v1alpha1.Datastore, restarted bool) {
		run(t, ds, func(f *fixture) {
			f.secret("dsn", good)
			f.settle()
			f.expectProbes("app")
			if restarted { // nothing is remembered
				f.offers = newOffers()
			}
			_, after := f.syncOnce()
			f.expectProbes()
			<-time.After(after)
			f.syncOnce()
			f.expectProbes("app")
			f.settle()
			f.expect(isTrue, v1alpha1.ReasonValidated)
			if _, after := f.syncOnce(); after != 10*time.Minute {
				t.Errorf("the next probe is after %s", after)
			}
		})
	}
	t.Run("by the process that put them in force", func(t *testing.T) { probedAfter(t, aDatastore(), false) })
	t.Run("by one that was started later", func(t *testing.T) { probedAfter(t, aDatastore(), true) })
	t.Run("and what stopped to work is told", func(t *testing.T) {
		run(t, aDatastore(), func(f *fixture) {
			f.secret("dsn", good)
			f.settle()
			<-time.After(10 * time.Minute)
			f.syncOnce()
			f.offers.change(pg, func(m *memo) { // the server refuses it now
				refused := *m.check
				refused.OK, refused.Reason, refused.Failures = false, v1alpha1.ReasonAuthenticationFailed, 1
				m.check = &refused
			})
			if _, after := f.syncOnce(); after != 5*time.Second {
				t.Errorf("the next probe is after %s", after)
			}
			f.expect(isFalse, v1alpha1.ReasonAuthenticationFailed)
			if f.managed() == nil {
				t.Error("the credentials are gone")
			}
		})
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

func TestOtherDrivers(t *testing.T) {
	for name, row := range map[string]struct {
		driver v1alpha1.Driver
		value  string
		reason string
		probes []string
	}{
		"nothing to probe": {v1alpha1.DriverMemory, "anything", v1alpha1.ReasonNotProbed, nil},
		"a superuser":      {v1alpha1.DriverPostgres, "postgres://super:hunter2@db.example/bank", v1alpha1.ReasonSharedAdminCredentials, []string{"super"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, aDatastore(func(ds *v1alpha1.Datastore) { ds.Spec.Driver = row.driver }), func(f *fixture) {
				f.secret("dsn", row.value)
				f.settle()
				f.expect(isTrue, row.reason)
				f.expectProbes(row.probes...)
				if f.managed() == nil {
					t.Error("there are no credentials")
				}
			})
		})
	}
}

func TestRefusedSecrets(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		_, err := f.kube.CoreV1().Secrets("bank").Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "creds"}, Type: corev1.SecretTypeServiceAccountToken,
			Data: map[string][]byte{"dsn": []byte(good)},
		}, metav1.CreateOptions{})
		f.must(err)
		f.settle()
		f.expect(isFalse, v1alpha1.ReasonSecretTypeRefused)
		f.expectProbes()
	})
	run(t, aDatastore(), func(f *fixture) {
		f.secret("dsn", good, "dsn-read-only", "postgres://%zz:hunter7@")
		f.settle()
		f.expect(isFalse, v1alpha1.ReasonInvalidConnectionString, `"dsn-read-only"`)
		f.secret("dsn", good, "dsn-read-only", "postgres://reader:hunter8@db.example/bank")
		f.settle()
		f.expect(isTrue, v1alpha1.ReasonValidated)
		if got := string(f.managed().Data["read-only-user"]); got != "reader" {
			t.Errorf("the user for reading only is %q", got)
		}
		f.expectProbes("app")
	})
}

func TestTheNameIsTaken(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		_, err := f.kube.CoreV1().Secrets("bank").Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "formspec-datastore-pg", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}},
			Data:       map[string][]byte{"uri": []byte("somebody's")},
		}, metav1.CreateOptions{})
		f.must(err)
		f.secret("dsn", good)
		if _, after := f.syncOnce(); after != 30*time.Second {
			t.Errorf("it looks again after %s", after)
		}
		f.expect(isFalse, v1alpha1.ReasonNameConflict)
		if string(f.managed().Data["uri"]) != "somebody's" {
			t.Error("somebody's Secret was changed")
		}
	})
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

func TestADatastoreThatIsGone(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.secret("dsn", dead)
		f.syncOnce()
		f.must(f.formspec.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("datastores"), "bank", "pg"))
		if requests, _ := f.syncOnce(); len(requests) > 0 {
			t.Errorf("requests %q", requests)
		}
		<-time.After(time.Minute) // the probe was called off, and what it says wakes nobody
		if f.woken(); len(f.offers.byDS) > 0 {
			t.Error("something is remembered of it")
		}
		f.crashed(t.Context(), pg)
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

func TestFailures(t *testing.T) {
	broken := errors.New("no answer")
	denied := apierrors.NewForbidden(corev1.Resource("secrets"), "formspec-datastore-pg", errors.New("a policy says no"))
	for name, row := range map[string]struct {
		verb, resource string
		fails          error
		want           error
		reason         string // of Validated. Empty: nothing is written
	}{
		"the Secret cannot be read":    {"get", "secrets", broken, broken, ""},
		"the Secret cannot be written": {"patch", "secrets", broken, broken, ""},
		"a policy refuses the Secret":  {"patch", "secrets", denied, denied, v1alpha1.ReasonRefused},
		"the status cannot be written": {"update", "datastores", broken, broken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, aDatastore(func(ds *v1alpha1.Datastore) { ds.Spec.Driver = v1alpha1.DriverMemory }), func(f *fixture) {
				f.secret("dsn", "anything")
				fail := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, row.fails }
				if row.resource == "secrets" {
					f.kube.PrependReactor(row.verb, row.resource, fail)
				} else {
					f.formspec.PrependReactor(row.verb, row.resource, fail)
				}
				after, err := f.sync(t.Context(), pg)
				if !errors.Is(err, row.want) {
					t.Errorf("error %v, want %v", err, row.want)
				}
				if row.reason == "" {
					if len(f.datastore().Status.Conditions) > 0 || len(f.events) > 0 {
						t.Errorf("it says %+v and %q about a fault that passes", f.datastore().Status, f.events)
					}
					return
				}
				if f.expect(isFalse, row.reason); after != 30*time.Second {
					t.Errorf("it is tried again after %s", after)
				}
			})
		})
	}
}

// store says how far a cache has come.
type store string

func (s store) LastStoreSyncResourceVersion() string { return string(s) }

func TestASyncWaitsUntilTheCacheHasSeenTheLastOne(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.memory.Wrote(pg, store("7"), "8")
		if _, err := f.sync(t.Context(), pg); !errors.Is(err, worker.ErrStale) || len(f.datastore().Status.Conditions) > 0 {
			t.Errorf("error %v, want a stale cache and nothing done", err)
		}
	})
}

func TestAPanicIsShown(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.crashed(t.Context(), pg)
		if c := meta.FindStatusCondition(f.datastore().Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != v1alpha1.ReasonInternalError {
			t.Errorf("Ready is %+v, want InternalError", c)
		}
		f.crashed(t.Context(), cache.NewObjectName("bank", "another")) // is no more
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
