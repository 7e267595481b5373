// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerkeys_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
)

const namespace = "formspec-system"

func entries(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.OwnerKeysConfigMap}, Data: data}
}

// run gives the test the keys in a bubble, which are read once the test starts them, and counts the changes.
func run(t *testing.T, kube *kubefake.Clientset, test func(ctx context.Context, keys *ownerkeys.Keys, changes *atomic.Int32)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		keys, changes := ownerkeys.New(kube, namespace), new(atomic.Int32) // two goroutines tell
		if err := keys.OnChange(ctx, func() { changes.Add(1) }); err != nil {
			t.Fatal(err)
		}
		test(ctx, keys, changes)
		synctest.Wait()
		cancel()
		keys.Shutdown()
	})
}

func expect(t *testing.T, keys *ownerkeys.Keys, entry string, absent bool) {
	t.Helper()
	synctest.Wait()
	config, is := keys.Published()
	if is != absent || (config == nil) != (entry == "") || (config != nil && config.Data["owner"] != entry) {
		t.Errorf("published is %v, absent %v, want %q and %v", config, is, entry, absent)
	}
}

func TestKeysComeAndGo(t *testing.T) {
	kube := kubefake.NewClientset()
	run(t, kube, func(ctx context.Context, keys *ownerkeys.Keys, changes *atomic.Int32) {
		expect(t, keys, "", false) // not read yet, which is not to be absent
		keys.Start(ctx)
		keys.Wait(ctx)
		expect(t, keys, "", true)
		if changes.Load() != 1 {
			t.Errorf("%d changes when it is known that there are none, want 1", changes.Load())
		}

		api := kube.CoreV1().ConfigMaps(namespace)
		write := func(config *corev1.ConfigMap, wake bool) {
			t.Helper()
			before := changes.Load()
			if _, err := api.Update(ctx, config, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
				if _, err := api.Create(ctx, config, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if synctest.Wait(); (changes.Load() > before) != wake {
				t.Errorf("that somebody is woken is %v, want %v", changes.Load() > before, wake)
			}
		}
		write(entries(map[string]string{"owner": "a"}), true)
		expect(t, keys, "a", false)
		write(entries(map[string]string{"owner": "b"}), true)
		expect(t, keys, "b", false)
		labelled := entries(map[string]string{"owner": "b"})
		labelled.Labels = map[string]string{"a": "b"}
		write(labelled, false)
		binary := entries(map[string]string{"owner": "b"})
		binary.BinaryData = map[string][]byte{"other": {0xff}}
		write(binary, true)
		before := changes.Load()
		if err := api.Delete(ctx, v1alpha1.OwnerKeysConfigMap, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if expect(t, keys, "", true); changes.Load() != before+1 {
			t.Error("nobody is woken when the keys go")
		}
	})
}

// Only this one ConfigMap is asked for: the operator may read no other.
func TestNoOtherConfigMapIsRead(t *testing.T) {
	kube := kubefake.NewClientset()
	run(t, kube, func(ctx context.Context, keys *ownerkeys.Keys, _ *atomic.Int32) {
		keys.Start(ctx)
		keys.Wait(ctx)
		asked := 0
		for _, action := range kube.Actions() {
			var fields string
			switch a := action.(type) {
			case clienttesting.ListActionImpl:
				fields = a.GetListRestrictions().Fields.String()
			case clienttesting.WatchActionImpl:
				fields = a.GetWatchRestrictions().Fields.String()
			}
			if asked++; fields != "metadata.name=formspec-owner-keys" || action.GetNamespace() != namespace {
				t.Errorf("%s %s in %q of %q", action.GetVerb(), action.GetResource().Resource, action.GetNamespace(), fields)
			}
		}
		if asked == 0 {
			t.Error("nothing is asked for")
		}
	})
}

// A ConfigMap that was not read is no absent one, and nobody waits for it.
func TestAnOutageIsNoAbsence(t *testing.T) {
	t.Run("of keys", func(t *testing.T) {
		testOutage(t, kubefake.NewClientset(entries(map[string]string{"owner": "a"})), "a")
	})
	t.Run("of nothing", func(t *testing.T) { testOutage(t, kubefake.NewClientset(), "") })
}

func testOutage(t *testing.T, kube *kubefake.Clientset, entry string) {
	t.Helper()
	run(t, kube, func(ctx context.Context, keys *ownerkeys.Keys, changes *atomic.Int32) {
		over := make(chan struct{})
		kube.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-over // the API server does not answer
			return false, nil, nil
		})
		keys.Start(ctx)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		keys.Wait(short)
		cancel()
		if expect(t, keys, "", false); changes.Load() > 0 {
			t.Errorf("%d changes in an outage", changes.Load())
		}
		close(over)
		keys.Wait(ctx)
		if expect(t, keys, entry, entry == ""); changes.Load() == 0 {
			t.Error("nobody is woken when the keys can be read")
		}
	})
}

// Who is told of keys finds them at once, also before the informer says that it has synced.
func TestWhoIsToldFindsTheKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		keys := ownerkeys.New(kubefake.NewClientset(entries(map[string]string{"owner": "a"})), namespace)
		told := make(chan *corev1.ConfigMap, 1)
		if err := keys.OnChange(ctx, func() {
			config, _ := keys.Published()
			told <- config
		}); err != nil {
			t.Fatal(err)
		}
		keys.Start(ctx)
		if config := <-told; config == nil || config.Data["owner"] != "a" {
			t.Errorf("published is %v when its event comes", config)
		}
		cancel()
		keys.Shutdown()
	})
}
