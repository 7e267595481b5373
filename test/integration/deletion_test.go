// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/base64"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// However a Workspace is deleted, its credentials stay, and one of the same name takes them over.
func TestDeletion(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s, secret := given(t), kindOf("Secret")
			class := s.class(full)
			shop := s.workspace("shop", class).ready()
			password := base64.StdEncoding.EncodeToString([]byte("secret"))
			shop.patchChild(secret, `{"data":{"password":"`+password+`"}}`)
			credentials, deployment := shop.child(secret), shop.deployment()
			shop.settled() // the garbage collector orphans only what it knows

			// when
			shop.delete(policy)

			// then
			if policy == metav1.DeletePropagationOrphan {
				shop.childrenStayWithoutOwner()
			} else {
				shop.childrenGo()
			}
			retained := shop.child(secret)
			if retained == nil || retained.GetUID() != credentials.GetUID() {
				t.Fatalf("the credentials have not stayed as they were: %v", retained)
			}
			if err := marked(shop, "true", password); err != nil {
				t.Error(err)
			}

			// when
			shop = s.workspace("shop", class).ready()

			// then
			if adopted := shop.child(secret); adopted.GetUID() != credentials.GetUID() {
				t.Errorf("the credentials were replaced")
			}
			if err := marked(shop, "", password); err != nil {
				t.Error(err)
			}
			if err := shop.asRendered(); err != nil {
				t.Error(err)
			}
			if policy == metav1.DeletePropagationOrphan {
				if d := shop.deployment(); d.UID != deployment.UID || len(shop.replicaSets()) != 1 {
					t.Errorf("what the Workspace left behind is not taken over as it is")
				}
			}
		})
	}
}

// Deletions that no operator saw are made up for.
func deletionWhileTheOperatorIsDown(t *testing.T, env *environment) {
	t.Helper()
	s, secret := givenIn(t, env), kindOf("Secret")
	class := s.class(full)
	held, forced := s.workspace("held", class).ready(), s.workspace("forced", class).ready()
	before := map[*tenant]types.UID{held: held.child(secret).GetUID(), forced: forced.child(secret).GetUID()}

	// when
	s.whileStopped(func() {
		s.kubectl("delete", "workspace", "held", "--wait=false")
		forced.patch(`{"metadata":{"finalizers":null}}`)
		forced.delete(metav1.DeletePropagationBackground)
	})

	// then
	for _, w := range []*tenant{held, forced} {
		w.gone()
		w.childrenGo()
		s.eventually("the credentials of "+w.name+" are marked", func() error {
			if have := w.child(secret).GetLabels()[v1alpha1.LabelRetained]; have != "true" {
				return fmt.Errorf("the mark is %q", have)
			}
			return nil
		})
		if w.child(secret).GetUID() != before[w] {
			t.Errorf("the credentials of %s were replaced", w.name)
		}
	}
}

// settled waits until Kubernetes' own controllers have seen all children.
func (w *tenant) settled() {
	w.Helper()
	for _, k := range childKinds {
		w.eventually("the "+k.kind+" is settled", func() error { return settledNow(w.child(k)) })
	}
}

// delete deletes the Workspace and waits until it is gone.
func (w *tenant) delete(policy metav1.DeletionPropagation) {
	w.Helper()
	err := w.formspec.FormspecV1alpha1().Workspaces(w.namespace).Delete(w.Context(), w.name, metav1.DeleteOptions{PropagationPolicy: &policy})
	w.must("delete the Workspace", err)
	w.gone()
}

// gone waits until there is no such Workspace.
func (w *tenant) gone() {
	w.Helper()
	w.eventually("Workspace "+w.name+" is gone", func() error {
		_, err := w.formspec.FormspecV1alpha1().Workspaces(w.namespace).Get(w.Context(), w.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there (%w)", err)
	})
}

// childrenGo waits until nothing is left but the credentials.
func (w *tenant) childrenGo() {
	w.Helper()
	w.eventually("all children but the credentials are gone", func() error {
		for _, k := range childKinds {
			if k.kind != "Secret" && w.child(k) != nil {
				return fmt.Errorf("the %s is still there", k.kind)
			}
		}
		if pods := w.pods(); len(pods) > 0 {
			return fmt.Errorf("%d pods are still there", len(pods))
		}
		return nil
	})
}

func (w *tenant) childrenStayWithoutOwner() {
	w.Helper()
	for _, k := range childKinds {
		if child := w.child(k); child == nil || len(child.GetOwnerReferences()) > 0 {
			w.Errorf("the %s is not orphaned: %v", k.kind, child)
		}
	}
}

// marked returns an error unless the credentials have the mark and the password.
func marked(w *tenant, mark, password string) error {
	secret := w.child(kindOf("Secret"))
	if have := secret.GetLabels()[v1alpha1.LabelRetained]; have != mark {
		return fmt.Errorf("the label %s of the credentials is %q, want %q", v1alpha1.LabelRetained, have, mark)
	}
	if have := fmt.Sprint(secret.Object["data"]); have != "map[password:"+password+"]" {
		return fmt.Errorf("the credentials are %s", have)
	}
	return nil
}
