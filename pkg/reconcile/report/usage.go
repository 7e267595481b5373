// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
)

// PodLife is when a pod ran: from when its node took it on, which every replica of the operator reads alike, to its end. A pod that is not
// on a node yet has no start. gone says that it was deleted. Without a condition Ready nothing tells when one has ended: its node may have
// refused it.
func PodLife(pod *corev1.Pod, now time.Time, gone bool) metering.Life {
	if pod.Status.StartTime == nil {
		return metering.Life{}
	}
	life := metering.Life{Start: pod.Status.StartTime.Time}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		life.End, life.Untold = now, true
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
				life.End, life.Untold = earlier(now, &c.LastTransitionTime), false
			}
		}
	case gone:
		life.End = earlier(now, pod.DeletionTimestamp) // by which its node has ended it; if the node is lost, nobody saw more
	}
	return life
}

func earlier(now time.Time, other *metav1.Time) time.Time {
	if other != nil && other.Time.Before(now) {
		return other.Time
	}
	return now
}

// ObjectLife is when an object existed. gone says that it was deleted.
func ObjectLife(object metav1.Object, now time.Time, gone bool) metering.Life {
	life := metering.Life{Start: object.GetCreationTimestamp().Time}
	if gone {
		life.End = now
	}
	return life
}

// Storage is how much each Workspace of the claims stores, in bytes, as far as drivers can tell. What is in a datastore belongs to no one of
// those who share it: they bear equal parts, which add up to the whole.
func Storage(datastores []*v1alpha1.Datastore, claims []*v1alpha1.ResourceClaim) map[types.NamespacedName]int64 {
	sharers := map[types.NamespacedName]sets.Set[string]{} // the names of Workspaces by datastore
	for _, claim := range claims {
		if !meta.IsStatusConditionTrue(claim.Status.Conditions, v1alpha1.ConditionReady) {
			continue
		}
		ds := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Spec.Datastore}
		if sharers[ds] == nil {
			sharers[ds] = sets.New[string]()
		}
		sharers[ds].Insert(claim.Spec.Workspace)
	}
	storage := map[types.NamespacedName]int64{}
	for _, ds := range datastores {
		who := sharers[types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}]
		if ds.Status.StorageGB <= 0 { // unknown, or nothing
			continue
		}
		for workspace := range who {
			storage[types.NamespacedName{Namespace: ds.Namespace, Name: workspace}] += ds.Status.StorageGB << 30 / int64(who.Len())
		}
	}
	return storage
}
