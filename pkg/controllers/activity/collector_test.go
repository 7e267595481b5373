// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	formspecv1alpha1 "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
)

// collecting gives the test a collector that runs.
func collecting(t *testing.T, namespaces []string, workspaces, objects []runtime.Object, test func(f *fixture, own *formspecfake.Clientset)) {
	t.Helper()
	run(t, objects, func(f *fixture) {
		own := formspecfake.NewClientset(workspaces...)
		factory := formspecinformers.NewSharedInformerFactory(own, 0)
		c, err := NewCollector(f.ctx, f.Tracker, CollectorConfig{
			Client: f.kube, Workspaces: []formspecv1alpha1.TypedWorkspaceInformer{factory.Formspec().V1alpha1().Workspaces()},
			Namespaces: namespaces, Clock: clock.RealClock{},
		})
		f.must(err)
		factory.StartWithContext(f.ctx)
		if !cache.WaitFor(f.ctx, "", c.synced...) {
			t.Fatal("never synced")
		}
		done := make(chan error, 1)
		go func() { done <- c.Run(f.ctx, 1) }()
		test(f, own)
	})
}

func (f *fixture) deleted() int {
	synctest.Wait()
	deletions := 0
	for _, action := range f.kube.Actions() {
		if _, is := action.(clienttesting.DeleteAction); is {
			deletions++
		}
	}
	return deletions
}

func theShop() *v1alpha1.Workspace {
	return &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "shop", UID: shop}}
}

func TestALeaseGoesAfterItsWorkspace(t *testing.T) {
	for _, namespaces := range [][]string{nil, {"bank"}} {
		collecting(t, namespaces, []runtime.Object{theShop()}, []runtime.Object{lease("7")}, func(f *fixture, own *formspecfake.Clientset) {
			after(time.Hour)
			if f.deleted() != 0 {
				t.Fatal("the Lease went before its Workspace")
			}
			f.must(own.FormspecV1alpha1().Workspaces("bank").Delete(f.ctx, "shop", metav1.DeleteOptions{}))
			if f.deleted() != 0 {
				t.Error("it went at once, and an activator would make it again")
			}
			after(time.Minute)
			if f.deleted() != 1 || f.lease(shop) != nil {
				t.Errorf("%d deletions, the Lease is %v", f.deleted(), f.lease(shop))
			}
		})
	}
}

func TestLeasesOfNobodyKnown(t *testing.T) {
	other := lease("8")
	other.Name = "formspec-activator"
	for name, row := range map[string]struct {
		namespaces []string
		want       int
	}{
		"an operator that sees all Workspaces deletes them": {nil, 1},
		"one that sees those of the namespace does, too":    {[]string{"a", "bank"}, 1},
		"one that sees others does not":                     {[]string{"a", "b"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			collecting(t, row.namespaces, nil, []runtime.Object{lease("7"), other}, func(f *fixture, _ *formspecfake.Clientset) {
				after(time.Hour)
				if got := f.deleted(); got != row.want {
					t.Errorf("%d deletions, want %d", got, row.want)
				}
			})
		})
	}
}
