// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// written is a ConfigMap as some manager wrote it by an update.
func written(t *testing.T, manager string, data map[string]string) *fake.Clientset {
	t.Helper()
	client := server()
	_, err := client.CoreV1().ConfigMaps("bank").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: existing("ours"), Data: data}, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	return client
}

func keys(t *testing.T, client *fake.Clientset) []string {
	t.Helper()
	var got corev1.ConfigMap
	if err := json.Unmarshal([]byte(stored(t, client, "configmaps")), &got); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(got.Data))
}

// An apply prunes nothing that it does not own, so a key that an operator of before wrote by an update would stay for ever.
func TestFieldsOfAnOperatorThatWroteByUpdatesAreTakenOver(t *testing.T) {
	for name, row := range map[string]struct {
		manager string
		write   reconcile.Write
		want    []string // keys that are left
		request []string
	}{
		"the cache shows its fields": {
			v1alpha1.LegacyManager,
			reconcile.Write{UID: "ours", Adopt: true},
			[]string{"region"},
			[]string{"get configmaps", "patch configmaps", `apply configmaps version="7" uid="ours"`},
		},
		"the cache did not have the object": {
			v1alpha1.LegacyManager,
			reconcile.Write{Create: true},
			[]string{"region"},
			[]string{`apply configmaps version="1" uid=""`, "get configmaps", "patch configmaps", `apply configmaps version="7" uid="ours"`},
		},
		"what other managers wrote is theirs": {
			"kubectl",
			reconcile.Write{UID: "ours", Adopt: true},
			[]string{"password", "region"},
			[]string{"get configmaps", `apply configmaps version="7" uid="ours"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := written(t, row.manager, map[string]string{"password": "hunter2", "region": "surabaya"})
			writer := apply.Writer{Client: client, Manager: "formspec-test"}
			row.write.Config = corev1ac.ConfigMap("shop", "bank").WithData(map[string]string{"region": "jakarta"})
			result, err := writer.Apply(t.Context(), row.write, ours)
			if err != nil {
				t.Fatal(err)
			}
			if result.Rewritten != nil {
				t.Errorf("the write arrived as it was sent, and is said to be rewritten to %s", reconcile.Fingerprint(result.Rewritten))
			}
			if got := keys(t, client); !slices.Equal(got, row.want) {
				t.Errorf("keys %q are left, want %q", got, row.want)
			}
			if got := requests(t, client); !slices.Equal(got, row.request) {
				t.Errorf("requests\n got %q\nwant %q", got, row.request)
			}
		})
	}
}

func TestAStrangersFieldsAreNotTakenOver(t *testing.T) {
	client := written(t, v1alpha1.LegacyManager, map[string]string{"password": "hunter2"})
	before := stored(t, client, "configmaps")
	writer := apply.Writer{Client: client, Manager: "formspec-test"}
	write := reconcile.Write{UID: "ours", Adopt: true, Config: corev1ac.ConfigMap("shop", "bank")}
	_, err := writer.Apply(t.Context(), write, func(metav1.Object) bool { return false })
	if taken := (*apply.NameTakenError)(nil); !errors.As(err, &taken) {
		t.Errorf("error %v, want a taken name", err)
	}
	if got := requests(t, client); !slices.Equal(got, []string{"get configmaps"}) || stored(t, client, "configmaps") != before {
		t.Errorf("requests %q, want one read and no write", got)
	}
}

func TestATakeOverThatFails(t *testing.T) {
	for _, verb := range []string{"get", "patch"} {
		t.Run(verb, func(t *testing.T) {
			failure := errors.New("no answer")
			client := written(t, v1alpha1.LegacyManager, map[string]string{"a": "b"})
			client.PrependReactor(verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, failure })
			writer := apply.Writer{Client: client, Manager: "formspec-test"}
			write := reconcile.Write{UID: "ours", Adopt: true, Config: corev1ac.ConfigMap("shop", "bank")}
			if _, err := writer.Apply(t.Context(), write, ours); !errors.Is(err, failure) || !strings.Contains(err.Error(), "ConfigMap bank/shop") {
				t.Errorf("error %v, want %v with the object's name", err, failure)
			}
			if last := client.Actions()[len(client.Actions())-1]; last.GetVerb() != verb {
				t.Errorf("the last request is to %s, want nothing after the failure", last.GetVerb())
			}
		})
	}
}

// TestRewritten: a policy may change what we send on its way in.
func TestRewritten(t *testing.T) {
	want := map[string]string{"region": "jakarta", "sla": "99"}
	for name, row := range map[string]struct {
		write  reconcile.Write
		policy func(data map[string]string)
		left   map[string]string // of ours; nil: it arrived as it was sent
	}{
		"a creation that arrives":               {reconcile.Write{Create: true}, func(map[string]string) {}, nil},
		"a creation whose value is changed":     {reconcile.Write{Create: true}, func(d map[string]string) { d["region"] = "surabaya" }, map[string]string{"region": "surabaya", "sla": "99"}},
		"a change that arrives":                 {reconcile.Write{UID: "ours"}, func(map[string]string) {}, nil},
		"a change whose value is changed":       {reconcile.Write{UID: "ours"}, func(d map[string]string) { d["region"] = "surabaya" }, map[string]string{"region": "surabaya", "sla": "99"}},
		"a conditional change that arrives":     {reconcile.Write{UID: "ours", ResourceVersion: "7"}, func(map[string]string) {}, nil},
		"what a policy adds is not ours":        {reconcile.Write{UID: "ours"}, func(d map[string]string) { d["zone"] = "a" }, nil},
		"what a policy takes away is ours lost": {reconcile.Write{UID: "ours"}, func(d map[string]string) { delete(d, "region") }, map[string]string{"sla": "99"}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if !row.write.Create {
				objects = append(objects, &corev1.ConfigMap{ObjectMeta: existing("ours")})
			}
			client := server(objects...)
			client.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
				patch := action.(clienttesting.PatchActionImpl)
				var sent map[string]any
				if err := json.Unmarshal(patch.Patch, &sent); err != nil {
					return true, nil, err
				}
				data := map[string]string{}
				for key, value := range sent["data"].(map[string]any) {
					data[key] = value.(string)
				}
				row.policy(data)
				return true, asAdmitted(data), nil
			})
			writer := apply.Writer{Client: client, Manager: "formspec-test"}
			row.write.Config = corev1ac.ConfigMap("shop", "bank").WithData(want)
			result, err := writer.Apply(t.Context(), row.write, ours)
			if err != nil {
				t.Fatal(err)
			}
			switch got, _ := result.Rewritten.(*corev1ac.ConfigMapApplyConfiguration); {
			case row.left == nil && result.Rewritten != nil:
				t.Errorf("said to be rewritten to %s, want it to have arrived", reconcile.Fingerprint(result.Rewritten))
			case row.left != nil && (got == nil || !maps.Equal(got.Data, row.left)):
				t.Errorf("left is %v, want data %v", result.Rewritten, row.left)
			}
		})
	}
}

// asAdmitted is a ConfigMap as the API server returns it: we own the keys that we sent and a policy kept.
func asAdmitted(data map[string]string) *corev1.ConfigMap {
	fields := map[string]any{}
	for _, key := range []string{"region", "sla"} {
		if _, kept := data[key]; kept {
			fields["f:"+key] = map[string]any{}
		}
	}
	text, err := json.Marshal(map[string]any{"f:data": fields})
	if err != nil {
		panic(err)
	}
	object := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: existing("ours"), Data: data}
	object.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "formspec-test", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: fieldsOf(text),
	}}
	return object
}

// The cache may not show a Deployment as it is: it has lost our label, or fields of it are another operator's. What an autoscaler made of it
// is known only once it is read.
func TestReplicasAreKeptInATakeOver(t *testing.T) {
	for name, row := range map[string]struct {
		live  *int32
		asks  *int32
		write reconcile.Write
		want  *int32 // that are sent in the end
	}{
		"a taken name, scaled up":             {new(int32(5)), new(int32(2)), reconcile.Write{Create: true, KeepReplicas: true}, new(int32(5))},
		"a taken name, asleep":                {new(int32(0)), new(int32(2)), reconcile.Write{Create: true, KeepReplicas: true}, new(int32(2))},
		"a taken name, not autoscaled":        {new(int32(5)), new(int32(2)), reconcile.Write{Create: true}, new(int32(2))},
		"another operator's, scaled up":       {new(int32(5)), nil, reconcile.Write{UID: "ours", Adopt: true, KeepReplicas: true}, new(int32(5))},
		"another operator's, without a count": {nil, new(int32(2)), reconcile.Write{UID: "ours", Adopt: true, KeepReplicas: true}, new(int32(2))},
		"as the cache has it":                 {new(int32(5)), new(int32(2)), reconcile.Write{UID: "ours", KeepReplicas: true}, new(int32(2))},
	} {
		t.Run(name, func(t *testing.T) {
			client := server(&appsv1.Deployment{ObjectMeta: existing("ours"), Spec: appsv1.DeploymentSpec{Replicas: row.live}})
			config := appsv1ac.Deployment("shop", "bank").WithSpec(appsv1ac.DeploymentSpec().WithRevisionHistoryLimit(3))
			config.Spec.Replicas = row.asks
			row.write.Config = config
			writer := apply.Writer{Client: client, Manager: "formspec-test"}
			result, err := writer.Apply(t.Context(), row.write, ours)
			if err != nil || result.Rewritten != nil {
				t.Fatalf("error %v, rewritten %v", err, result.Rewritten)
			}
			patch := client.Actions()[len(client.Actions())-1].(clienttesting.PatchAction)
			var sent appsv1.Deployment
			if err := json.Unmarshal(patch.GetPatch(), &sent); err != nil {
				t.Fatal(err)
			}
			if got := ptr.Deref(sent.Spec.Replicas, -1); got != *row.want || *sent.Spec.RevisionHistoryLimit != 3 {
				t.Errorf("%d replicas were sent, want %d", got, *row.want)
			}
			if got := config.Spec.Replicas; !ptr.Equal(got, row.asks) {
				t.Errorf("the plan was changed to %v replicas", got)
			}
		})
	}
}

func fieldsOf(text []byte) *metav1.FieldsV1 {
	fields := &metav1.FieldsV1{}
	fields.SetRawBytes(text)
	return fields
}
