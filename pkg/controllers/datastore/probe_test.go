// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	reconcile "github.com/formspec/formspec-operator/pkg/reconcile/datastore"
)

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

func TestAWriteOfSomethingElseLeavesTheOfferAlone(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.secret("dsn", good, "next", other)
		f.settle()
		f.expectProbes("app")
		check := f.offers.recall(pg, time.Now()).check

		f.slow = 10 * time.Second
		f.change(func(ds *v1alpha1.Datastore) { ds.Spec.EndpointSecretRef.Key = "next" })
		f.syncOnce() // its probe begins
		f.change(func(ds *v1alpha1.Datastore) { ds.Spec.EndpointSecretRef.Key = "dsn" })
		secret := f.managed()
		secret.Labels[v1alpha1.LabelDatastore] = "forged"
		_, err := f.kube.CoreV1().Secrets("bank").Update(t.Context(), secret, metav1.UpdateOptions{FieldManager: "somebody"})
		f.must(err)
		if requests, _ := f.syncOnce(); !slices.Contains(requests, "patch secrets") {
			t.Errorf("requests %q, want the label to be repaired", requests)
		}
		if memo := f.offers.recall(pg, time.Now()); memo.offer == nil || memo.check != check {
			t.Errorf("the offer is %v and the check %+v, want both as they were", memo.offer, memo.check)
		}
		<-time.After(time.Minute)
		f.settle()
		f.expect(isTrue, v1alpha1.ReasonValidated)
	})
}

func TestTheEndOfAProbeThatNobodyWaitsFor(t *testing.T) {
	valid := datastore.Result{Reason: v1alpha1.ReasonValidated}
	remembering := func(m memo) *offers {
		o := newOffers()
		o.byDS[pg] = &m
		return o
	}
	t.Run("of an offer that is gone", func(t *testing.T) {
		o := remembering(memo{probing: "a"})
		o.ended(pg, "a", valid, time.Now())
		if m := o.recall(pg, time.Now()); m.check != nil || m.offer != nil || m.probing != "" {
			t.Errorf("it remembers %+v", m)
		}
	})
	t.Run("of an offer that another has replaced", func(t *testing.T) {
		o := remembering(memo{probing: "a", offer: &reconcile.Offer{Origin: "b"}})
		o.ended(pg, "a", valid, time.Now())
		if m := o.recall(pg, time.Now()); m.check != nil || m.offer.Check != nil {
			t.Errorf("it remembers %+v", m)
		}
	})
	t.Run("of what was in force before", func(t *testing.T) {
		o := remembering(memo{probing: inForce, offer: &reconcile.Offer{Origin: "b", Check: &reconcile.Check{OK: true}}})
		o.accepted(pg, "b")
		o.ended(pg, inForce, datastore.Result{Reason: v1alpha1.ReasonAuthenticationFailed}, time.Now())
		if m := o.recall(pg, time.Now()); m.check == nil || !m.check.OK {
			t.Errorf("it remembers %+v", m)
		}
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

// What an operator of another version has put in force may be nothing that this one can read.
func TestCredentialsInForceThatCannotBeRead(t *testing.T) {
	run(t, aDatastore(), func(f *fixture) {
		f.secret("dsn", good)
		f.settle()
		f.expectProbes("app")
		f.offers = newOffers() // another version takes over
		secret, err := corev1ac.ExtractSecret(f.managed(), Name)
		f.must(err)
		secret.Data["uri"] = []byte("postgres://h:hunter9:x")
		_, err = f.kube.CoreV1().Secrets("bank").Apply(t.Context(), secret, metav1.ApplyOptions{FieldManager: Name})
		f.must(err)
		for range 2 {
			_, after := f.syncOnce()
			<-time.After(after)
			f.settle()
			f.expect(isFalse, v1alpha1.ReasonInvalidConnectionString, `"creds"`, "in force")
			f.expectProbes()
			if requests, after := f.syncOnce(); len(requests) > 0 || after != 10*time.Minute {
				t.Errorf("it makes the requests %q and looks again after %s", requests, after)
			}
		}
	})
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
