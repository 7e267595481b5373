// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/identity"
)

const namespace = "formspec-system"

func secret(t *testing.T, key *clustercontrol.Identity) *corev1.Secret {
	t.Helper()
	encoded, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: identity.SecretName, Namespace: namespace},
		Data:       map[string][]byte{identity.SecretKey: encoded},
	}
}

func newKey(t *testing.T) *clustercontrol.Identity {
	t.Helper()
	key, err := clustercontrol.GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// writes are the verbs of all requests that change something.
func writes(client *kubefake.Clientset) (verbs []string) {
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

func TestEnsureMakesAKeyOnce(t *testing.T) {
	client := kubefake.NewClientset()
	if _, err := identity.Read(t.Context(), client, namespace); !errors.Is(err, identity.ErrAbsent) {
		t.Errorf("Read returned %v", err)
	}
	made, err := identity.Ensure(t.Context(), client, namespace)
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.Ensure(t.Context(), client, namespace)
	if err != nil || again.KeyID() != made.KeyID() {
		t.Errorf("then %v (%v), was %v", again, err, made)
	}
	if got := writes(client); len(got) != 1 || got[0] != "create" {
		t.Errorf("wrote %v", got)
	}
}

func TestEnsureTakesTheOneThatCameFirst(t *testing.T) {
	client, theirs := kubefake.NewClientset(), newKey(t)
	client.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := client.Tracker().Add(secret(t, theirs)); err != nil {
			t.Fatal(err)
		}
		return true, nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, identity.SecretName)
	})
	got, err := identity.Ensure(t.Context(), client, namespace)
	if err != nil || got.KeyID() != theirs.KeyID() {
		t.Errorf("got %v (%v), want %v", got, err, theirs)
	}
}

func TestEnsureOverwritesNothing(t *testing.T) {
	for name, data := range map[string]map[string][]byte{
		"no data":     nil,
		"another key": {"key.pem": []byte("x")},
		"empty":       {identity.SecretKey: {}},
		"damaged":     {identity.SecretKey: []byte("-----BEGIN PRIVATE KEY-----\nhunter2=\n-----END PRIVATE KEY-----\n")},
	} {
		t.Run(name, func(t *testing.T) {
			client := kubefake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: identity.SecretName, Namespace: namespace}, Data: data})
			_, err := identity.Ensure(t.Context(), client, namespace)
			if err == nil || !strings.Contains(err.Error(), "formspec-system/formspec-operator-identity") || !strings.Contains(err.Error(), "delete the Secret") ||
				strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
			if got := writes(client); len(got) > 0 {
				t.Errorf("wrote %v", got)
			}
		})
	}
}

func TestEnsureMakesNothingWhenItCannotRead(t *testing.T) {
	client := kubefake.NewClientset()
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("etcd"))
	})
	if _, err := identity.Ensure(t.Context(), client, namespace); err == nil || errors.Is(err, identity.ErrAbsent) || len(writes(client)) > 0 {
		t.Errorf("got %v, wrote %v", err, writes(client))
	}
}

func TestSourceFollowsTheSecret(t *testing.T) {
	client := kubefake.NewClientset()
	source := identity.NewSource(client, namespace)
	if _, err := source.Get(); err == nil || errors.Is(err, identity.ErrAbsent) {
		t.Errorf("before anything was read: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	source.Start(ctx)
	source.Wait(ctx)
	defer source.Shutdown()
	defer cancel()
	if _, err := source.Get(); !errors.Is(err, identity.ErrAbsent) {
		t.Errorf("with no Secret: %v", err)
	}
	eventually := func(what string, ok func(*clustercontrol.Identity, error) bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return ok(source.Get()), nil })
		if err != nil {
			got, err := source.Get()
			t.Fatalf("%s: got %v (%v)", what, got, err)
		}
	}
	first, second := newKey(t), newKey(t)
	secrets := client.CoreV1().Secrets(namespace)
	if _, err := secrets.Create(ctx, secret(t, first), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("made", func(i *clustercontrol.Identity, err error) bool { return err == nil && i.KeyID() == first.KeyID() })
	one, _ := source.Get()
	if two, _ := source.Get(); one != two {
		t.Error("the same Secret is parsed again and again")
	}
	if _, err := secrets.Update(ctx, secret(t, second), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("replaced", func(i *clustercontrol.Identity, err error) bool { return err == nil && i.KeyID() == second.KeyID() })
	broken := secret(t, second)
	broken.Data = nil
	if _, err := secrets.Update(ctx, broken, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("malformed", func(i *clustercontrol.Identity, err error) bool {
		return i == nil && err != nil && strings.Contains(err.Error(), "is missing")
	})
	if err := secrets.Delete(ctx, identity.SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("deleted", func(_ *clustercontrol.Identity, err error) bool { return errors.Is(err, identity.ErrAbsent) })
}
