// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package trim_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/trim"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, subresource string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: &metav1.FieldsV1{}}
}

func transform(t *testing.T, f func(any) (any, error), object any) any {
	t.Helper()
	out, err := f(object)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestChildrenKeepWhatWeApplied(t *testing.T) {
	mine := entry("formspec-workspace", metav1.ManagedFieldsOperationApply, "")
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d", v1alpha1.AnnotationSleep: "e"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				entry("kubectl", metav1.ManagedFieldsOperationUpdate, ""),
				entry("formspec-workspace", metav1.ManagedFieldsOperationUpdate, ""),
				mine,
				entry("formspec-workspace", metav1.ManagedFieldsOperationApply, "status"),
				entry("formspec-other", metav1.ManagedFieldsOperationApply, ""),
				entry("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, "status"),
			},
		},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)}, Status: appsv1.DeploymentStatus{ReadyReplicas: 2},
	}
	want := d.DeepCopy()
	want.ManagedFields, want.Annotations = []metav1.ManagedFieldsEntry{mine}, map[string]string{v1alpha1.AnnotationSleep: "e"}
	got := transform(t, trim.Children("formspec-workspace"), d)
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestChildrenThatAreNotOurs(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry("kubectl", metav1.ManagedFieldsOperationApply, "")}}}
	if got := transform(t, trim.Children("formspec-workspace"), service).(*corev1.Service); len(got.ManagedFields) != 0 {
		t.Errorf("managed fields %v, want none", got.ManagedFields)
	}
}

func TestDataOfStrangersIsNotKept(t *testing.T) {
	applied := []metav1.ManagedFieldsEntry{entry("formspec-workspace", metav1.ManagedFieldsOperationApply, "")}
	for name, test := range map[string]struct {
		entries    []metav1.ManagedFieldsEntry
		annotation string
		kept       bool
	}{
		"ours":                         {applied, "", true},
		"ours, restored from a backup": {nil, v1alpha1.AnnotationRevision, true},
		"of an operator before us":     {[]metav1.ManagedFieldsEntry{entry(v1alpha1.LegacyManager, metav1.ManagedFieldsOperationUpdate, "")}, "", true},
		"somebody's, with our label":   {[]metav1.ManagedFieldsEntry{entry("kubectl", metav1.ManagedFieldsOperationUpdate, "")}, "example.com/note", false},
	} {
		meta := metav1.ObjectMeta{Name: "shop", ManagedFields: test.entries, Annotations: map[string]string{test.annotation: "x"}}
		text, raw := map[string]string{"a": "b"}, map[string][]byte{"a": []byte("b")}
		for _, object := range []any{&corev1.Secret{ObjectMeta: meta, Data: raw}, &corev1.ConfigMap{ObjectMeta: meta, Data: text}, &corev1.ConfigMap{ObjectMeta: meta, BinaryData: raw}} {
			got := transform(t, trim.Children("formspec-workspace"), object)
			var size int
			switch got := got.(type) {
			case *corev1.Secret:
				size = len(got.Data)
			case *corev1.ConfigMap:
				size = len(got.Data) + len(got.BinaryData)
			}
			if (size > 0) != test.kept {
				t.Errorf("%s: %T has %d keys, want them kept: %t", name, got, size, test.kept)
			}
		}
	}
}

// An informer hands a transform tombstones too, and nothing may be lost then.
func TestTombstonesPass(t *testing.T) {
	tombstone := cache.DeletedFinalStateUnknown{Key: "bank/shop", Obj: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	for name, f := range map[string]func(any) (any, error){"children": trim.Children("formspec-workspace"), "own kinds": trim.Own} {
		if got := transform(t, f, tombstone); !reflect.DeepEqual(got, tombstone) {
			t.Errorf("%s: got %+v, want the tombstone as it is", name, got)
		}
	}
}

func TestOwnKindsKeepAllButTheirHistory(t *testing.T) {
	ws := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop", Generation: 3, Finalizers: []string{v1alpha1.WorkspaceFinalizer},
			Annotations:   map[string]string{corev1.LastAppliedConfigAnnotation: "{}", v1alpha1.AnnotationIdle: "true"},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("formspec-workspace", metav1.ManagedFieldsOperationApply, "")},
		},
		Spec: v1alpha1.WorkspaceSpec{ClusterClass: "premium"}, Status: v1alpha1.WorkspaceStatus{Phase: v1alpha1.PhaseReady},
	}
	want := ws.DeepCopy()
	want.ManagedFields, want.Annotations = nil, map[string]string{v1alpha1.AnnotationIdle: "true"}
	if got := transform(t, trim.Own, ws); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := transform(t, trim.Own, &v1alpha1.ClusterClass{}); !equality.Semantic.DeepEqual(got, &v1alpha1.ClusterClass{}) {
		t.Errorf("got %+v, want an empty class as it is", got)
	}
}

const secret = "hunter2"

// fullPod has everything that a decision needs, and secrets and bulk wherever a pod may have them.
func fullPod() *corev1.Pod {
	now := metav1.NewTime(time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC))
	status := corev1.ContainerStatus{
		Name: "formspec-resource", RestartCount: 4, Ready: true, Image: secret, ImageID: secret, ContainerID: secret,
		State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"},
			Running: &corev1.ContainerStateRunning{StartedAt: now},
		},
		LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", Message: secret, ContainerID: secret},
		},
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "shop-1", UID: "uid", ResourceVersion: "7", CreationTimestamp: now, DeletionTimestamp: &now,
			Labels:          map[string]string{v1alpha1.LabelWorkspace: "shop", "pod-template-hash": secret},
			Annotations:     map[string]string{"token": secret},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "shop-7d4f", Controller: new(true)}},
			ManagedFields:   []metav1.ManagedFieldsEntry{entry("formspec-workspace", metav1.ManagedFieldsOperationApply, "")},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1",
			Containers: []corev1.Container{{
				Name: "formspec-resource", Image: secret, Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
			}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &now, Message: secret, PodIP: secret,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes", LastTransitionTime: now, LastProbeTime: now,
			}},
			InitContainerStatuses: []corev1.ContainerStatus{status}, ContainerStatuses: []corev1.ContainerStatus{status},
		},
	}
}

func TestPodsKeepTheirReasons(t *testing.T) {
	full := fullPod()
	got := transform(t, trim.Children("formspec-workspace"), fullPod()).(*corev1.Pod)

	status := corev1.ContainerStatus{
		Name: "formspec-resource", RestartCount: 4,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "shop-1", UID: "uid", ResourceVersion: "7",
			CreationTimestamp: full.CreationTimestamp, DeletionTimestamp: full.DeletionTimestamp,
			Labels: map[string]string{v1alpha1.LabelWorkspace: "shop"}, OwnerReferences: full.OwnerReferences,
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: full.Status.StartTime,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes", LastTransitionTime: full.CreationTimestamp,
			}},
			InitContainerStatuses: []corev1.ContainerStatus{status}, ContainerStatuses: []corev1.ContainerStatus{status},
		},
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestPodsLoseEverybodysSecrets(t *testing.T) {
	text, err := json.Marshal(transform(t, trim.Children("formspec-workspace"), fullPod()))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Errorf("the trimmed pod still holds what is none of our business: %s", text)
	}
	if again := transform(t, trim.Children("formspec-workspace"), transform(t, trim.Children("formspec-workspace"), fullPod())); !equality.Semantic.DeepEqual(again, transform(t, trim.Children("formspec-workspace"), fullPod())) {
		t.Error("trimming a trimmed pod changes it")
	}
}

func TestAPodWithoutOurLabelGetsNone(t *testing.T) {
	got := transform(t, trim.Children("formspec-workspace"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}}}).(*corev1.Pod)
	if len(got.Labels) != 0 {
		t.Errorf("labels %v, want none", got.Labels)
	}
}

// A node keeps what is reported of it, and none of its addresses, images and annotations.
func TestNodesAreCutDown(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "uid", Labels: map[string]string{"formspec.dev/tier": "shared", "kubernetes.io/arch": "amd64"},
			Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{entry("kubelet", metav1.ManagedFieldsOperationUpdate, "status")},
		},
		Spec: corev1.NodeSpec{Unschedulable: true, PodCIDR: "10.0.0.0/24", Taints: []corev1.Taint{{Key: "x"}}},
		Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceEphemeralStorage: resource.MustParse("1Gi")},
			Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.NewTime(time.Now())}},
			Addresses:   []corev1.NodeAddress{{Address: "10.0.0.1"}}, Images: []corev1.ContainerImage{{Names: []string{"app"}}},
		},
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid", Labels: map[string]string{"formspec.dev/tier": "shared"}},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
			Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if got := transform(t, trim.Node, node); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if tombstone := "no node"; transform(t, trim.Node, tombstone) != tombstone {
		t.Error("what is no node is changed")
	}
}

func TestEndpointSlice(t *testing.T) {
	const secret = "hunter2"
	got := transform(t, trim.EndpointSlice, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "shop-abcde", UID: "uid", ResourceVersion: "7", Annotations: map[string]string{"token": secret},
			Labels: map[string]string{discoveryv1.LabelServiceName: "shop", "theirs": secret}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: secret}},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.1"}, NodeName: new(secret), TargetRef: &corev1.ObjectReference{Name: secret},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)},
		}},
	})
	want := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "shop-abcde", UID: "uid", ResourceVersion: "7", Labels: map[string]string{discoveryv1.LabelServiceName: "shop"},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	if !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
