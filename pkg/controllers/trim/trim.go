// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trim holds the informer transforms: a cache keeps what a decision needs and nothing else, neither bytes nor anybody's secrets.
// A trimmed object is never sent back.
package trim

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

// Children keeps of managedFields what the given managers applied, from which Extract reads what is ours, and what is to
// be taken over. It cuts pods down. Anybody can put our label on objects of theirs: of these it keeps no data.
func Children(managers ...string) func(any) (any, error) {
	return func(object any) (any, error) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return object, nil // a tombstone, whose object was trimmed before
		}
		if pod, ok := object.(*corev1.Pod); ok {
			return trimPod(pod), nil
		}
		accessor.SetManagedFields(slices.DeleteFunc(accessor.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
			ours := slices.Contains(managers, e.Manager) && e.Operation == metav1.ManagedFieldsOperationApply
			legacy := e.Manager == v1alpha1.LegacyManager && e.Operation == metav1.ManagedFieldsOperationUpdate
			return e.Subresource != "" || !(ours || legacy)
		}))
		trimAnnotations(accessor)
		if len(accessor.GetManagedFields()) == 0 && len(accessor.GetAnnotations()) == 0 { // one that was restored has our annotations
			dropData(object)
		}
		return object, nil
	}
}

// Own drops what no decision needs from our own kinds.
func Own(object any) (any, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return object, nil
	}
	accessor.SetManagedFields(nil)
	trimAnnotations(accessor)
	return object, nil
}

// trimAnnotations keeps our own: others can be 256 KiB, and no decision reads them.
func trimAnnotations(object metav1.Object) {
	annotations := object.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, v1alpha1.GroupName+"/") })
	object.SetAnnotations(annotations)
}

// dropData drops what makes an object large that nobody applied on our behalf.
func dropData(object any) {
	switch o := object.(type) {
	case *corev1.Secret:
		o.Data = nil
	case *corev1.ConfigMap:
		o.Data, o.BinaryData = nil, nil
	}
}

// Node keeps what is reported of a node.
func Node(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil // a tombstone, whose object was trimmed before
	}
	slim := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
			CreationTimestamp: node.CreationTimestamp, DeletionTimestamp: node.DeletionTimestamp,
		},
		Spec:   corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
		Status: corev1.NodeStatus{Capacity: trimResources(node.Status.Capacity), Allocatable: trimResources(node.Status.Allocatable)},
	}
	for key, value := range node.Labels {
		if strings.HasPrefix(key, report.LabelPrefix) {
			metav1.SetMetaDataLabel(&slim.ObjectMeta, key, value)
		}
	}
	for _, c := range node.Status.Conditions {
		slim.Status.Conditions = append(slim.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
	}
	return slim, nil
}

// EndpointSlice keeps where the pods of a Service are and whether they are ready.
func EndpointSlice(object any) (any, error) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil // a tombstone, whose object was trimmed before
	}
	slim := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace, Name: slice.Name, UID: slice.UID, ResourceVersion: slice.ResourceVersion,
			Labels: map[string]string{discoveryv1.LabelServiceName: slice.Labels[discoveryv1.LabelServiceName]},
		},
		AddressType: slice.AddressType, Ports: slice.Ports,
	}
	for _, e := range slice.Endpoints {
		slim.Endpoints = append(slim.Endpoints, discoveryv1.Endpoint{
			Addresses: e.Addresses, Conditions: discoveryv1.EndpointConditions{Ready: e.Conditions.Ready},
		})
	}
	return slim, nil
}

func trimResources(resources corev1.ResourceList) corev1.ResourceList {
	slim := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		if quantity, ok := resources[name]; ok {
			slim[name] = quantity
		}
	}
	return slim
}

// Metadata keeps what tells that an object is there and has changed. Annotations can hold a whole Secret.
func Metadata(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone, whose object was trimmed before
	}
	return &metav1.PartialObjectMetadata{TypeMeta: full.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
	}}, nil
}

// trimPod keeps what tells why a pod is not running, and for how long it ran.
func trimPod(pod *corev1.Pod) *corev1.Pod {
	slim := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, OwnerReferences: pod.OwnerReferences,
		},
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, StartTime: pod.Status.StartTime,
			InitContainerStatuses: trimStatuses(pod.Status.InitContainerStatuses), ContainerStatuses: trimStatuses(pod.Status.ContainerStatuses),
		},
	}
	if value, ok := pod.Labels[v1alpha1.LabelWorkspace]; ok {
		slim.Labels = map[string]string{v1alpha1.LabelWorkspace: value}
	}
	for _, c := range pod.Status.Conditions {
		slim.Status.Conditions = append(slim.Status.Conditions, corev1.PodCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return slim
}

func trimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var slim []corev1.ContainerStatus
	for _, s := range statuses {
		kept := corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount, State: corev1.ContainerState{Waiting: s.State.Waiting}}
		if ended := s.LastTerminationState.Terminated; ended != nil {
			kept.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, Reason: ended.Reason}
		}
		slim = append(slim, kept)
	}
	return slim
}
