// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

func newWriter(objects ...runtime.Object) (*Writer, *kubefake.Clientset) {
	client := kubefake.NewClientset(objects...)
	return &Writer{Client: client.CoordinationV1().Leases(v1alpha1.ActivatorNamespace), Identity: "activator-1"}, client
}

func verbs(client *kubefake.Clientset) string {
	var list []string
	for _, action := range client.Actions() {
		list = append(list, action.GetVerb())
	}
	return strings.Join(list, " ")
}

func TestTheFirstWriteMakesTheLease(t *testing.T) {
	w, client := newWriter()
	ws := Workspace{Namespace: "bank", Name: "shop.front", UID: "uid-1", Window: window}
	if err := w.Write(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	lease, err := w.Client.Get(t.Context(), "uid-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"app.kubernetes.io/managed-by":     "formspec-operator",
		"formspec.dev/workspace":           names.Label("shop.front"),
		"formspec.dev/workspace-namespace": "bank",
	}
	if !maps.Equal(lease.Labels, want) || lease.Annotations["formspec.dev/workspace-name"] != "shop.front" {
		t.Errorf("labels %v, annotations %v", lease.Labels, lease.Annotations)
	}
	if lease.Namespace != "formspec-activator" || *lease.Spec.HolderIdentity != "activator-1" || lease.Spec.RenewTime == nil {
		t.Errorf("got %+v", lease)
	}
	if got := verbs(client); got != "patch create get" {
		t.Errorf("requests: %s", got)
	}
}

func TestLaterWritesRenewAndNothingElse(t *testing.T) {
	w, client := newWriter(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ActivatorNamespace, Name: "uid-1"}})
	if err := w.Write(t.Context(), Workspace{Namespace: "bank", Name: "shop", UID: "uid-1"}); err != nil {
		t.Fatal(err)
	}
	if got := verbs(client); got != "patch" {
		t.Fatalf("requests: %s", got)
	}
	patch := client.Actions()[0].(clienttesting.PatchAction)
	var body map[string]map[string]string
	if err := json.Unmarshal(patch.GetPatch(), &body); err != nil || patch.GetPatchType() != types.MergePatchType {
		t.Fatalf("%s %s: %v", patch.GetPatchType(), patch.GetPatch(), err)
	}
	if len(body) != 1 || len(body["spec"]) != 2 || body["spec"]["renewTime"] == "" || body["spec"]["holderIdentity"] != "activator-1" {
		t.Errorf("the patch is %s", patch.GetPatch())
	}
}

// Two replicas, one new Workspace: the one that comes second renews what the first has made.
func TestALeaseThatAnotherReplicaMakesMeanwhile(t *testing.T) {
	w, client := newWriter()
	client.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ActivatorNamespace, Name: "uid-1"}}
		if err := client.Tracker().Add(lease); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), "uid-1")
	})
	if err := w.Write(t.Context(), Workspace{Namespace: "bank", Name: "shop", UID: "uid-1"}); err != nil {
		t.Fatal(err)
	}
	if got := verbs(client); got != "patch create patch" {
		t.Errorf("requests: %s", got)
	}
}

func TestAWriteThatFailsNamesTheWorkspace(t *testing.T) {
	w, client := newWriter()
	refused := errors.New("refused")
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refused })
	err := w.Write(t.Context(), Workspace{Namespace: "bank", Name: "shop", UID: "uid-1"})
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), "bank/shop") {
		t.Errorf("got %v", err)
	}
}
