// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/reconcile"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

func TestApplyReturnsTheNewVersion(t *testing.T) {
	client := server()
	client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "42"}}, nil
	})
	writer := apply.Writer{Client: client, Manager: "formspec-test"}
	got, err := writer.Apply(t.Context(), create(corev1ac.ConfigMap("shop", "bank")), ours)
	if err != nil || got.ResourceVersion != "42" {
		t.Errorf("result %+v, error %v; want version 42", got, err)
	}
}

func TestApplyChangesTheVeryObjectThatWasMeant(t *testing.T) {
	for name, row := range map[string]struct {
		there    []runtime.Object
		conflict bool
	}{
		"the object is still there":                {[]runtime.Object{&corev1.ConfigMap{ObjectMeta: existing("ours")}}, false},
		"it is gone: it is not made again":         {nil, true},
		"another has its name: that is left alone": {[]runtime.Object{&corev1.ConfigMap{ObjectMeta: existing("theirs")}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := server(row.there...)
			before := stored(t, client, "configmaps")
			writer := apply.Writer{Client: client, Manager: "formspec-test"}
			_, err := writer.Apply(t.Context(), reconcile.Write{UID: "ours", Config: corev1ac.ConfigMap("shop", "bank").WithData(map[string]string{"a": "b"})}, ours)
			if apierrors.IsConflict(err) != row.conflict || (err != nil) != row.conflict {
				t.Errorf("error %v, want a conflict: %v", err, row.conflict)
			}
			if got, want := requests(t, client), []string{`apply configmaps version="" uid="ours"`}; !slices.Equal(got, want) {
				t.Errorf("requests %q, want %q", got, want)
			}
			if changed := before != stored(t, client, "configmaps"); changed == row.conflict {
				t.Errorf("something was written: %v, want %v", changed, !row.conflict)
			}
		})
	}
}

func TestApplyTellsWhatFailed(t *testing.T) {
	refusal := apierrors.NewForbidden(configMaps, "shop", errors.New("exceeded quota"))
	for name, row := range map[string]struct {
		verb string // that fails
		err  error
		want string // of the error
	}{
		"the write is refused":                          {"patch", refusal, "apply ConfigMap bank/shop: "},
		"the owner of the name cannot be told":          {"get", refusal, "get ConfigMap bank/shop: "},
		"the owner of the name goes while it is looked": {"get", apierrors.NewNotFound(configMaps, "shop"), "get ConfigMap bank/shop: "},
	} {
		t.Run(name, func(t *testing.T) {
			client := server(&corev1.ConfigMap{ObjectMeta: existing("ours")})
			client.PrependReactor(row.verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, row.err })
			writer := apply.Writer{Client: client, Manager: "formspec-test"}
			_, err := writer.Apply(t.Context(), create(corev1ac.ConfigMap("shop", "bank")), ours)
			if !errors.Is(err, row.err) || !strings.HasPrefix(err.Error(), row.want) {
				t.Errorf("error %v, want %q before %v", err, row.want, row.err)
			}
			if _, taken := errors.AsType[*apply.NameTakenError](err); taken {
				t.Errorf("error %v claims that the name is a stranger's, which nobody knows", err)
			}
		})
	}
}

func TestApplyRefusesOtherKinds(t *testing.T) {
	client := server()
	writer := apply.Writer{Client: client, Manager: "formspec-test"}
	if _, err := writer.Apply(t.Context(), reconcile.Write{Config: rbacv1ac.Role("shop", "bank")}, ours); err == nil || len(client.Actions()) > 0 {
		t.Errorf("error %v, requests %v; want an error and no request", err, client.Actions())
	}
}

func TestDelete(t *testing.T) {
	for kind, k := range kinds {
		if kind == "Secret" {
			continue // no Secret is ever deleted
		}
		t.Run(kind, func(t *testing.T) {
			client := server(k.object(existing("ours")))
			writer := apply.Writer{Client: client, Manager: "formspec-test"}
			child := reconcile.Reference{Kind: kind, Name: "shop", UID: "ours"}
			for range 2 { // gone already is no error
				if err := writer.Delete(t.Context(), "bank", child); err != nil {
					t.Fatal(err)
				}
			}
			want := `delete ` + k.resource + ` uid="ours" Background`
			if got := requests(t, client); !slices.Equal(got, []string{want, want}) {
				t.Errorf("requests %q, want %q twice", got, want)
			}
		})
	}
}

func TestDeleteTellsWhatFailed(t *testing.T) {
	conflict := apierrors.NewConflict(configMaps, "shop", errors.New("another UID"))
	client := server(&corev1.ConfigMap{ObjectMeta: existing("theirs")})
	client.PrependReactor("delete", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict })
	writer := apply.Writer{Client: client, Manager: "formspec-test"}
	err := writer.Delete(t.Context(), "bank", reconcile.Reference{Kind: "ConfigMap", Name: "shop", UID: "ours"})
	if !apierrors.IsConflict(err) || !strings.HasPrefix(err.Error(), "delete ConfigMap bank/shop: ") {
		t.Errorf("error %v, want the conflict with the object's name", err)
	}
}

func TestDeleteRefusesOtherKinds(t *testing.T) {
	for _, kind := range []string{"Secret", "Role"} {
		client := server(&corev1.Secret{ObjectMeta: existing("ours")})
		writer := apply.Writer{Client: client, Manager: "formspec-test"}
		if err := writer.Delete(t.Context(), "bank", reconcile.Reference{Kind: kind, Name: "shop", UID: "ours"}); err == nil || len(client.Actions()) > 0 {
			t.Errorf("%s: error %v, requests %v; want an error and no request", kind, err, client.Actions())
		}
	}
}
