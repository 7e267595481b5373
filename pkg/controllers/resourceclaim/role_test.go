// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

func TestLoginOfAClaim(t *testing.T) {
	run(t, func(f *fixture) {
		// The finalizer comes before anything is made.
		if writes, _ := f.syncOnce(); !slices.Equal(writes, []string{"patch resourceclaims", "update resourceclaims/status"}) {
			t.Errorf("writes %q", writes)
		}
		f.expectCalls("ensure shop-pg read-write by admin")
		f.expectRole(metav1.ConditionUnknown, v1alpha1.ReasonRolePending)
		f.settle()
		f.expectRole(metav1.ConditionTrue, v1alpha1.ReasonRoleInForce)
		f.expectCalls()
		first := f.secret()
		if string(first.Data["password"]) != f.passwords[0] || first.Data["user"] == nil || first.Annotations[v1alpha1.AnnotationRevision] == "" {
			t.Errorf("the Secret has the keys %d and annotations %v", len(first.Data), first.Annotations)
		}
		if f.logins.last(bankClaim, "uid-of-shop-pg") != nil {
			t.Error("the password stays in memory")
		}

		// A rotation makes one new password.
		f.change(func(c *v1alpha1.ResourceClaim) {
			c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: "1"}
		})
		f.settle()
		f.settle()
		f.expectCalls("ensure shop-pg read-write by admin")
		second := f.secret()
		if string(second.Data["password"]) != f.passwords[1] || f.passwords[1] == f.passwords[0] ||
			second.Annotations[v1alpha1.AnnotationRevision] == first.Annotations[v1alpha1.AnnotationRevision] {
			t.Error("the password or the revision is the old one")
		}

		// What ends the grant ends the login, and the claim is let go.
		f.change(func(c *v1alpha1.ResourceClaim) { c.Spec.Signature = "" })
		f.settle()
		f.expectCalls("drop shop-pg by admin")
		if last := f.secret(); len(last.Data) > 0 || last.Annotations[v1alpha1.AnnotationRevision] != "" || len(f.claim().Finalizers) > 0 {
			t.Errorf("%d keys and the finalizers %q are left", len(last.Data), f.claim().Finalizers)
		}
	})
}

func TestLoginThatCannotBeMade(t *testing.T) {
	run(t, func(f *fixture) {
		f.fails = &datastore.Error{Reason: v1alpha1.ReasonRoleRefused, Message: "the endpoint's user may not manage roles"}
		f.settle()
		f.expectRole(metav1.ConditionFalse, v1alpha1.ReasonRoleRefused)
		f.expectCalls("ensure shop-pg read-write by admin")
		if _, after := f.syncOnce(); after != 5*time.Second {
			t.Errorf("it is tried again after %s", after)
		}
		// An error of another kind may hold anything.
		f.fails = errors.New("oops: topsecret")
		<-time.After(5 * time.Second)
		f.settle()
		f.expectRole(metav1.ConditionFalse, v1alpha1.ReasonInternalError)
		f.did()

		f.fails, f.hangs = nil, true
		<-time.After(10 * time.Second)
		f.syncOnce()
		f.expectCalls("ensure shop-pg read-write by admin")
		f.syncOnce()
		f.expectCalls() // one at a time
		<-time.After(workDeadline)
		f.hangs = false
		<-time.After(time.Minute)
		f.settle()
		f.expectRole(metav1.ConditionTrue, v1alpha1.ReasonRoleInForce)
	})
}

func TestDeletedClaimDoesNotWaitForADeadServer(t *testing.T) {
	run(t, func(f *fixture) {
		f.settle()
		f.did()
		f.fails = &datastore.Error{Reason: v1alpha1.ReasonUnreachable, Message: "no answer"}
		f.change(func(c *v1alpha1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		f.settle()
		f.expectCalls("drop shop-pg by admin")
		f.expectRole(metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
		f.events = nil
		<-time.After(time.Minute)
		f.syncOnce()
		if len(f.claim().Finalizers) > 0 || len(f.events) == 0 || !strings.HasPrefix(f.events[0], "Warning RoleLeftBehind the login claim_shop_pg_") {
			t.Errorf("finalizers %q, events %q", f.claim().Finalizers, f.events)
		}
	})
}
