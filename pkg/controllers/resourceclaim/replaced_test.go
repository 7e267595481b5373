// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

// put is a write of another controller to a built-in kind.
func (f *fixture) put(resource string, object runtime.Object) {
	f.t.Helper()
	kind := corev1.SchemeGroupVersion.WithResource(resource)
	if resource == "deployments" {
		kind = appsv1.SchemeGroupVersion.WithResource(resource)
	}
	if err := f.kube.Tracker().Update(kind, object, "bank"); err != nil {
		f.must(f.kube.Tracker().Add(object))
	}
	synctest.Wait()
}

// handed is the credentials Secret of the workspace with that user.
func (f *fixture) handed(user, revision string) {
	f.t.Helper()
	f.put("secrets", &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "formspec-resource-shop-db-credentials",
			Labels:        map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			Annotations:   map[string]string{v1alpha1.AnnotationWorkspaceName: "shop", v1alpha1.AnnotationCredentials: revision},
			ManagedFields: appliedBy("formspec-workspace"),
		},
		Data: map[string][]byte{"FORMSPEC_DATASTORE_PG_USER": []byte(user)},
	})
}

// rolled is the Deployment of the workspace, with that many pods of that revision, and others from before.
func (f *fixture) rolled(revision string, updated, others int32) {
	f.t.Helper()
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "formspec-resource-shop", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(aWorkspace(), v1alpha1.SchemeGroupVersion.WithKind("Workspace"))},
		},
		Status: appsv1.DeploymentStatus{Replicas: updated + others, UpdatedReplicas: updated},
	}
	d.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationCredentials: revision}
	f.put("deployments", d)
}

// wakes waits as long as steps of a rollout are collected.
func (f *fixture) wakes(want ...string) {
	f.t.Helper()
	<-time.After(batch)
	synctest.Wait()
	if got := f.woken(); !slices.Equal(got, want) {
		f.t.Errorf("woken %q, want %q", got, want)
	}
}

// A later grant takes over: nothing is dropped before its login has reached every pod.
func TestTheLoginOfASupersededClaim(t *testing.T) {
	run(t, func(f *fixture) {
		f.settle()
		f.expectCalls("ensure shop-pg read-write by admin")
		first := string(f.secret().Data["user"])
		f.handed(first, "r1")
		f.rolled("r1", 2, 0)
		f.wakes("shop-pg")

		f.must(f.formspec.Tracker().Add(aClaim("later", func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = ago(time.Minute) })))
		f.settle()
		f.expectReady(metav1.ConditionFalse, v1alpha1.ReasonSuperseded)
		f.expectRole(metav1.ConditionTrue, v1alpha1.ReasonRoleInForce)
		f.woken()

		f.handed("claim_later_x", "r2")
		f.wakes("shop-pg")
		f.settle()
		f.expectRole(metav1.ConditionUnknown, v1alpha1.ReasonRoleReplaced)
		f.rolled("r2", 1, 1)
		f.wakes("shop-pg")
		_, after := f.syncOnce()
		if f.expectRole(metav1.ConditionUnknown, v1alpha1.ReasonRoleReplaced); after <= 0 || after > 10*time.Minute {
			t.Errorf("it looks again after %s", after)
		}
		f.expectCalls()

		f.rolled("r2", 2, 0)
		f.wakes("shop-pg")
		f.settle()
		f.expectCalls("drop shop-pg by admin")
		if last := f.secret(); len(last.Data) > 0 || len(f.claim().Finalizers) > 0 {
			t.Errorf("%d keys and the finalizers %q are left", len(last.Data), f.claim().Finalizers)
		}
		f.woken()
		f.rolled("r2", 1, 0)
		f.wakes() // nobody who has no login
	})
}

func TestARolloutThatDoesNotEnd(t *testing.T) {
	run(t, func(f *fixture) {
		f.settle()
		f.did()
		f.handed("claim_later_x", "r2")
		f.rolled("r1", 0, 2)
		f.must(f.formspec.Tracker().Add(aClaim("later", func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = ago(time.Minute) })))
		f.settle()
		_, after := f.syncOnce()
		f.expectCalls()
		<-time.After(after)
		f.settle()
		f.expectCalls("drop shop-pg by admin")
	})
}

// The endpoint's user cannot make logins, so what a workspace has had before the roles were PerClaim stays, and the claim says so.
func TestTheSharedCredentialsThatAWorkspaceKeeps(t *testing.T) {
	for user, kept := range map[string]bool{"app": true, "": false, "claim_gone_x": false} {
		t.Run(user, func(t *testing.T) {
			run(t, func(f *fixture) {
				f.handed(user, "r1")
				f.fails = &datastore.Error{Reason: v1alpha1.ReasonRoleRefused, Message: "the endpoint's user may not manage roles"}
				f.settle()
				f.expectRole(metav1.ConditionFalse, v1alpha1.ReasonRoleRefused)
				c := meta.FindStatusCondition(f.claim().Status.Conditions, v1alpha1.ConditionRoleReady)
				if got := strings.Contains(c.Message, "keeps the datastore's own credentials"); got != kept {
					t.Errorf("the message is %q", c.Message)
				}
			})
		})
	}
}
