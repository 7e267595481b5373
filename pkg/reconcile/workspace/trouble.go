// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// trouble is why a pod does not become ready.
type trouble struct{ reason, message string }

// trouble finds why pods are not running. Pods are looked at by name, so that the answer is stable while nothing changes.
func (in Input) trouble() *trouble {
	pods := slices.SortedFunc(slices.Values(in.Pods), func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, look := range []func(*corev1.Pod) *trouble{in.containerTrouble, in.schedulingTrouble} {
		for _, pod := range pods {
			if !ownPod(in.Workspace.Name, pod) || pod.DeletionTimestamp != nil || podReady(pod) {
				continue
			}
			if t := look(pod); t != nil {
				return t
			}
		}
	}
	return nil
}

// ownPod leaves out pods that carry our label but that our Deployment did not make.
func ownPod(workspace string, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "ReplicaSet" && strings.HasPrefix(owner.Name, names.Deployment(workspace)+"-")
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// pullErrors are the kubelet's reasons for an image that it cannot pull.
var pullErrors = []string{
	"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "SignatureValidationFailed",
}

// pullError is the cause of a failed pull. Between two attempts the kubelet repeats it behind words of its own, which would come and go.
func pullError(message string) string {
	if strings.HasPrefix(message, "Back-off pulling image ") {
		for _, reason := range pullErrors {
			if _, cause, found := strings.Cut(message, ": "+reason+": "); found {
				return cause
			}
		}
	}
	return message
}

// containerTrouble tells why the container does not run. A container that ended twice is in a crash loop also while it runs its next
// short life, so that the reason does not flicker.
func (in Input) containerTrouble(pod *corev1.Pod) *trouble {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && slices.Contains(pullErrors, w.Reason) {
			return &trouble{v1alpha1.ReasonImagePullBackOff, fmt.Sprintf("image %q cannot be pulled: %s", in.image(), pullError(w.Message))}
		}
		if ended := c.LastTerminationState.Terminated; ended != nil && c.RestartCount >= 2 {
			return &trouble{v1alpha1.ReasonCrashLoopBackOff, fmt.Sprintf(
				"the container of pod %q ends again and again, last with exit code %d (%s). See its log: kubectl -n %s logs %s --previous",
				pod.Name, ended.ExitCode, ended.Reason, pod.Namespace, pod.Name)}
		}
		if w := c.State.Waiting; w != nil && strings.HasSuffix(w.Reason, "Error") {
			return &trouble{v1alpha1.ReasonContainerFailed, fmt.Sprintf("the container of pod %q does not start: %s: %s", pod.Name, w.Reason, w.Message)}
		}
	}
	return nil
}

// schedulingTrouble tells why no node takes the pod and, where node labels are the cause, what to type.
func (in Input) schedulingTrouble(pod *corev1.Pod) *trouble {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
			continue
		}
		message := "no node takes the pods: " + c.Message
		if selector := in.nodeSelector(); len(selector) > 0 && strings.Contains(c.Message, "node affinity/selector") {
			pairs := make([]string, 0, len(selector))
			for _, label := range slices.Sorted(maps.Keys(selector)) {
				pairs = append(pairs, label+"="+selector[label])
			}
			message = fmt.Sprintf("no node with room for the pods has all the labels %s. Label one that may run them: kubectl label node <node> %s (scheduler: %s)",
				strings.Join(pairs, ", "), strings.Join(pairs, " "), c.Message)
		}
		return &trouble{v1alpha1.ReasonUnschedulable, message}
	}
	return nil
}
