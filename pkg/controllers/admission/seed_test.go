// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// deployment is that of a Workspace, which says whose slot it takes unless class is empty.
func deployment(ws *v1alpha1.Workspace, class string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: ws.Namespace, Name: names.Deployment(ws.Name), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Workspace", Name: ws.Name, UID: ws.UID, Controller: new(true),
		}},
	}}
	if class != "" {
		d.Annotations = map[string]string{v1alpha1.AnnotationClusterClass: class}
	}
	return d
}

func unlabelled(d *appsv1.Deployment) *appsv1.Deployment {
	d.Labels = nil
	return d
}

func admitted(ws *v1alpha1.Workspace, class string) *v1alpha1.Workspace {
	ws.Status.AdmittedClass = class
	return ws
}

func TestReadHolders(t *testing.T) {
	shop := func() *v1alpha1.Workspace { return workspace("shop", "std", 1) }
	for name, row := range map[string]struct {
		workspace  *v1alpha1.Workspace // nil: it is gone
		deployment *appsv1.Deployment
		want       string
	}{
		"one that waits":                                  {shop(), nil, ""},
		"one that is admitted":                            {admitted(shop(), "std"), deployment(shop(), "std"), "std"},
		"one whose status came before its children":       {admitted(shop(), "std"), nil, "std"},
		"one whose children came before its status":       {shop(), deployment(shop(), "std"), "std"},
		"one that is gone, and its Deployment not yet":    {nil, deployment(shop(), "std"), "std"},
		"one that waits for its new class":                {admitted(shop(), "pro"), deployment(shop(), "pro"), "pro"},
		"one that moved, and its status does not say so":  {admitted(shop(), "pro"), deployment(shop(), "std"), "std"},
		"one that moved, and its Deployment was refused":  {admitted(shop(), "std"), deployment(shop(), "pro"), "std"},
		"one that ran before there were slots":            {shop(), deployment(shop(), ""), "std"},
		"one that ran before, and nothing carries labels": {shop(), unlabelled(deployment(shop(), "")), "std"},
		"a stranger's Deployment of that name":            {shop(), unlabelled(deployment(workspace("other/shop", "std", 1), "")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			kube, formspec := kubefake.NewClientset(), formspecfake.NewClientset()
			if d := row.deployment; d != nil {
				d.Namespace = "bank"
				kube = kubefake.NewClientset(d)
			}
			ledger := admission.NewLedger()
			if row.workspace != nil {
				formspec = formspecfake.NewClientset(row.workspace)
				ledger.LineUp(row.workspace) // as the informer does first
			}
			if err := ledger.ReadHolders(t.Context(), kube, formspec, ""); err != nil {
				t.Fatal(err)
			}
			if got := ledger.Held("uid of shop"); got != row.want {
				t.Errorf("it holds a slot of %q, want %q", got, row.want)
			}
			want := 0
			if row.want != "" {
				want = 1
			}
			if got := ledger.Admitted("std") + ledger.Admitted("pro"); got != want {
				t.Errorf("%d slots are held, want %d", got, want)
			}
		})
	}
}

func TestReadHoldersCorrectsWhatTheCacheSaid(t *testing.T) {
	stale, live := admitted(workspace("shop", "std", 1), "pro"), admitted(workspace("shop", "std", 1), "std")
	ledger := line(stale)
	if err := ledger.ReadHolders(t.Context(), kubefake.NewClientset(), formspecfake.NewClientset(live), ""); err != nil {
		t.Fatal(err)
	}
	if got := ledger.Held(live.UID); got != "std" {
		t.Errorf("it holds a slot of %q, want std", got)
	}
}

func TestReadHoldersReadsItsNamespace(t *testing.T) {
	here, there := admitted(workspace("bank/shop", "std", 1), "std"), admitted(workspace("other/shop", "std", 1), "std")
	ledger := admission.NewLedger()
	if err := ledger.ReadHolders(t.Context(), kubefake.NewClientset(), formspecfake.NewClientset(here, there), "bank"); err != nil {
		t.Fatal(err)
	}
	if got := ledger.Admitted("std"); got != 1 {
		t.Errorf("%d slots are held, want 1", got)
	}
}

// The informer may tell that somebody is gone while a read that is older is still being taken in.
func TestWhoGoesDuringTheReadHoldsNothing(t *testing.T) {
	shop, bank := workspace("shop", "std", 1), admitted(workspace("ledger", "std", 1), "std")
	kube, formspec := kubefake.NewClientset(deployment(shop, "std")), formspecfake.NewClientset(bank)
	ledger := admission.NewLedger()
	kube.PrependReactor("list", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		ledger.Release(shop.UID)
		return false, nil, nil
	})
	formspec.PrependReactor("list", "workspaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		ledger.Release(bank.UID)
		return false, nil, nil
	})
	if err := ledger.ReadHolders(t.Context(), kube, formspec, ""); err != nil {
		t.Fatal(err)
	}
	if got := ledger.Admitted("std"); got != 0 {
		t.Errorf("%d slots are held by those who are gone", got)
	}
	wantNames(t, "admitted afterwards", enter(ledger, limited("std", 1), shop), "shop")
}

func TestReadHoldersFails(t *testing.T) {
	for resource, wantText := range map[string]string{
		"list deployments": "list Deployments", "list workspaces": "list Workspaces", "get deployments": "list Workspaces",
	} {
		t.Run(resource, func(t *testing.T) {
			failure := errors.New("no answer")
			kube, formspec := kubefake.NewClientset(), formspecfake.NewClientset(workspace("shop", "std", 1))
			verb, kind, _ := strings.Cut(resource, " ")
			fail := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, failure }
			kube.PrependReactor(verb, kind, fail)
			formspec.PrependReactor(verb, kind, fail)
			err := admission.NewLedger().ReadHolders(t.Context(), kube, formspec, "")
			if !errors.Is(err, failure) || !strings.Contains(err.Error(), wantText) {
				t.Errorf("error %v, want %v about %s", err, failure, wantText)
			}
		})
	}
}

// A restart must neither give out a slot twice nor forget who is first.
func TestARestartKeepsWhoRunsAndWhoIsNext(t *testing.T) {
	class := limited("std", 2)
	all := []*v1alpha1.Workspace{workspace("a", "std", 1), workspace("b", "std", 2), workspace("c", "std", 3), workspace("d", "std", 4)}
	first := line(all...)
	wantNames(t, "admitted before the restart", enter(first, class, all...), "a", "b")
	kube := kubefake.NewClientset(deployment(all[0], "std"), deployment(all[1], "std")) // no status was written

	second := line(all...)
	if err := second.ReadHolders(t.Context(), kube, formspecfake.NewClientset(all[0], all[1], all[2], all[3]), ""); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	wantNames(t, "admitted after the restart", enter(second, class, all...), "b", "a")
	second.Release("uid of a")
	wantNames(t, "admitted to the free slot", enter(second, class, all...), "c", "b")
}
