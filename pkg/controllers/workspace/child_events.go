// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// childHandler wakes the owner of a child, and its old owner if that changed. An addition in the initial list wakes nobody, because
// every Workspace wakes then; what our own write caused wakes nobody.
func childHandler[T reconcile.Object](c *Controller, changed func(old, cur T) urgency) cache.TypedResourceEventHandler[T] {
	wake := func(child T, u urgency) {
		if key, ok := c.owner(child); ok && !c.memory.Echo(key, child.GetResourceVersion()) {
			c.enqueue(key, u)
		}
	}
	return cache.TypedResourceEventHandlerDetailedFuncs[T]{
		AddFunc: func(child T, initial bool) {
			if !initial {
				wake(child, soon)
			}
		},
		UpdateFunc: func(old, cur T) {
			before, owned := c.owner(old)
			if after, ok := c.owner(cur); owned && (!ok || after != before) {
				c.enqueue(before, now)
			}
			if u := changed(old, cur); u != never {
				wake(cur, u)
			}
		},
		DeleteFunc: func(child cache.DeletedObject[T]) {
			var none T
			if child.OptionalObj == none {
				return // the informer missed it and does not know whose it was; the next list tells
			}
			if key, ok := c.owner(child.OptionalObj); ok {
				c.enqueue(key, now)
			}
		},
	}
}

// owner resolves the Workspace that controls a child, by group, kind, name and UID.
func (c *Controller) owner(child metav1.Object) (cache.ObjectName, bool) {
	ref := metav1.GetControllerOfNoCopy(child)
	if ref == nil || ref.Kind != "Workspace" {
		return cache.ObjectName{}, false
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != v1alpha1.GroupName {
		return cache.ObjectName{}, false
	}
	ws, err := c.workspaces.Workspaces(child.GetNamespace()).Get(ref.Name)
	if err != nil || ws.UID != ref.UID {
		return cache.ObjectName{}, false // it is gone, and the garbage collector takes the child
	}
	return cache.NewObjectName(child.GetNamespace(), ref.Name), true
}

// secretHandler resolves the Workspace by name: the credentials Secret has no owner reference. One that is not marked wakes its Workspace
// at the start too, so that a Secret whose Workspace vanished while nobody looked gets its mark.
func (c *Controller) secretHandler() cache.TypedResourceEventHandler[*corev1.Secret] {
	wake := func(secret *corev1.Secret, u urgency) {
		if owner := metav1.GetControllerOfNoCopy(secret); owner != nil {
			switch owner.Kind {
			case "Datastore":
				c.wakeClaimants(secret.Namespace, owner.Name)
			case "ResourceClaim":
				c.wakeClaimant(secret.Namespace, owner.Name)
			}
			return
		}
		workspace := secret.Annotations[v1alpha1.AnnotationWorkspaceName]
		if secret.Name != names.Credentials(workspace) {
			return
		}
		if key := cache.NewObjectName(secret.Namespace, workspace); !c.memory.Echo(key, secret.ResourceVersion) {
			c.enqueue(key, u)
		}
	}
	return cache.TypedResourceEventHandlerFuncs[*corev1.Secret]{
		AddFunc: func(secret *corev1.Secret) {
			if secret.Labels[v1alpha1.LabelRetained] == "" {
				wake(secret, soon)
			}
		},
		UpdateFunc: func(old, cur *corev1.Secret) {
			if old.Annotations[v1alpha1.AnnotationWorkspaceName] != cur.Annotations[v1alpha1.AnnotationWorkspaceName] {
				wake(old, now) // somebody changed the name by which we know it
			}
			wake(cur, now)
		},
		DeleteFunc: func(secret cache.DeletedObject[*corev1.Secret]) {
			if secret.OptionalObj != nil {
				wake(secret.OptionalObj, now)
			}
		},
	}
}

// podHandler wakes the Workspace of a pod whose state tells something new.
func (c *Controller) podHandler() cache.TypedResourceEventHandler[*corev1.Pod] {
	wake := func(pod *corev1.Pod) {
		workspaces, err := c.workspaceIndex.ByTypedIndex(index.WorkspacesByLabel, index.Key(pod.Namespace, pod.Labels[v1alpha1.LabelWorkspace]))
		if err != nil {
			return // the index is always there
		}
		for _, ws := range workspaces {
			c.enqueue(cache.MetaObjectToName(ws), soon)
		}
	}
	return cache.TypedResourceEventHandlerFuncs[*corev1.Pod]{
		UpdateFunc: func(old, cur *corev1.Pod) {
			if !equality.Semantic.DeepEqual(old.Status.Conditions, cur.Status.Conditions) ||
				!equality.Semantic.DeepEqual(old.Status.ContainerStatuses, cur.Status.ContainerStatuses) {
				wake(cur)
			}
		},
	}
}

// metadataChanged finds what somebody may have changed in what we set.
func metadataChanged(old, cur metav1.Object) bool {
	return old.GetUID() != cur.GetUID() || old.GetGeneration() != cur.GetGeneration() ||
		(old.GetDeletionTimestamp() == nil) != (cur.GetDeletionTimestamp() == nil) ||
		!maps.Equal(old.GetLabels(), cur.GetLabels()) || !maps.Equal(old.GetAnnotations(), cur.GetAnnotations()) ||
		!equality.Semantic.DeepEqual(old.GetOwnerReferences(), cur.GetOwnerReferences())
}

// anyChange is for kinds without status.
func anyChange[T metav1.Object](_, _ T) urgency { return now }

func deploymentUrgency(old, cur *appsv1.Deployment) urgency {
	switch {
	case metadataChanged(old, cur):
		return now
	case !equality.Semantic.DeepEqual(old.Status, cur.Status):
		return soon
	default:
		return never
	}
}

// autoscalerUrgency leaves out the current metrics, which move all the time.
func autoscalerUrgency(old, cur *autoscalingv2.HorizontalPodAutoscaler) urgency {
	active := func(hpa *autoscalingv2.HorizontalPodAutoscaler) (status corev1.ConditionStatus, reason string) {
		for _, condition := range hpa.Status.Conditions {
			if condition.Type == autoscalingv2.ScalingActive {
				return condition.Status, condition.Reason
			}
		}
		return "", ""
	}
	oldStatus, oldReason := active(old)
	curStatus, curReason := active(cur)
	switch {
	case metadataChanged(old, cur), !equality.Semantic.DeepEqual(old.Spec, cur.Spec): // before Kubernetes 1.37 it has no generation
		return now
	case oldStatus != curStatus || oldReason != curReason:
		return soon
	default:
		return never
	}
}

func disruptionBudgetUrgency(old, cur *policyv1.PodDisruptionBudget) urgency {
	if metadataChanged(old, cur) {
		return now
	}
	return never
}
