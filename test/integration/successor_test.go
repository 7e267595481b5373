// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/test/servers"
)

// A change of the permission alone is a change of what pods read: it rolls them once. What else changes in a claim rolls nothing.
func TestPermissionReachesPods(t *testing.T) {
	t.Parallel()
	s := given(t)
	me := s.publishedOwner()
	me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri()).ready()
	claim := me.grant("shop", "pg", "shop")
	shop := s.workspace("shop", s.class(), lists("pg", v1alpha1.DriverPostgres)).ready()
	sign := func(change ...func(*v1alpha1.ResourceClaim)) {
		t.Helper()
		signed := me.newClaim("shop", "pg", "shop", change...)
		claim.patch(fmt.Sprintf(`{"spec":{"permission":%q,"grantedAt":%q,"signature":%q}}`, signed.Spec.Permission, signed.Spec.GrantedAt, signed.Spec.Signature))
	}
	expect := func(what string, replicaSets int, permission v1alpha1.Permission, mayWrite bool) {
		t.Helper()
		shop.eventually(what, func() error {
			values, err := shop.environmentOf()
			if have := values["FORMSPEC_DATASTORE_PG_PERMISSION"]; err == nil && have != string(permission) {
				return fmt.Errorf("the permission is %q, want %q", have, permission)
			}
			if have := len(shop.replicaSets()); have != replicaSets {
				return fmt.Errorf("there are %d ReplicaSets, want %d", have, replicaSets)
			}
			return firstError(err, rolledOutNow(shop.deployment()), readyNow(shop.get()))
		})
		if _, err := servers.Psql(t, shop.dsn(), "CREATE TEMPORARY TABLE x (id int)"); (err == nil) != mayWrite {
			t.Errorf("%s: that a session may write is %v, want %v", what, err == nil, mayWrite)
		}
		s.lasts(2*time.Second, what, func() error {
			if have := len(shop.replicaSets()); have != replicaSets {
				return fmt.Errorf("there are %d ReplicaSets, want %d", have, replicaSets)
			}
			return nil
		})
	}
	expect("at first", 1, v1alpha1.PermissionReadWrite, true)

	sign(readOnly)
	expect("after the permission has shrunk", 2, v1alpha1.PermissionReadOnly, false)

	start := s.now()
	sign(readOnly, grantedAt(time.Now().Add(time.Second)))
	s.kubectl("label", "frc", "shop", "example.com/hint=label")
	s.kubectl("annotate", "frc", "shop", "example.com/hint=annotation")
	expect("after the claim was signed again", 2, v1alpha1.PermissionReadOnly, false)
	if writes := s.sent(start, about("deployments"), request.write); len(writes) > 0 {
		t.Errorf("that moved a Deployment:%s", list(writes))
	}
}

// A later grant takes over without a gap: the login of the earlier one works until no pod runs with it.
func TestSuccessorTakesOverWithoutAGap(t *testing.T) {
	t.Parallel()
	s := given(t)
	me := s.publishedOwner()
	_, uri := s.administrator()
	me.datastore("pg", v1alpha1.DriverPostgres, uri, perClaim).ready()
	first := me.grant("first", "pg", "shop", grantedAt(time.Now().Add(-2*time.Hour)))
	shop := s.workspace("shop", s.class(), lists("pg", v1alpha1.DriverPostgres)).ready()
	first.approved().roleReady()
	shop.rolledOut()
	before := shop.dsn()
	record := s.recordDeployments()
	works := func(what, dsn string) {
		t.Helper()
		if out, err := servers.Psql(t, dsn, "SELECT 1"); err != nil {
			t.Errorf("%s, psql prints %q (%v)", what, out, err)
		}
	}

	// given that the rollout does not get ahead
	deployment := shop.deployment().Name
	s.kubectl("rollout", "pause", "deployment/"+deployment)
	second := me.grant("second", "pg", "shop", grantedAt(time.Now().Add(-time.Hour)))

	// then both logins work
	second.approved().roleReady()
	first.denied(v1alpha1.ReasonSuperseded, `"second"`)
	shop.eventually("the workspace has the other login", func() error {
		if shop.dsn() == before {
			return errors.New("it has that of the first claim")
		}
		return nil
	})
	first.eventually("the login of the first claim waits for the pods", func() error {
		return claimSubject(first.get()).has(v1alpha1.ConditionRoleReady, metav1.ConditionUnknown, v1alpha1.ReasonRoleReplaced, "no pod runs with it")
	})
	s.lasts(3*time.Second, "the pods that run keep their login", func() error {
		if out, err := servers.Psql(t, before, "SELECT 1"); err != nil {
			return fmt.Errorf("psql prints %q (%w)", out, err)
		}
		return nil
	})
	works("with the login of the second claim", shop.dsn())

	// when the rollout is complete, then only the second one's is left
	s.kubectl("rollout", "resume", "deployment/"+deployment)
	shop.rolledOut()
	shop.ready()
	shop.refusesLogin(before)
	works("with the login of the second claim", shop.dsn())
	first.eventually("the first claim has no login", func() error {
		if got := first.get().Finalizers; slices.Contains(got, v1alpha1.RoleFinalizer) {
			return fmt.Errorf("it has the finalizers %q", got)
		}
		return nil
	})
	for _, d := range record() {
		if refs, err := injected(&d, "shop"); err != nil || len(refs) != len(variables("pg", parts...)) {
			t.Errorf("generation %d of the Deployment has the variables %v (%v)", d.Generation, refs, err)
		}
	}
}
