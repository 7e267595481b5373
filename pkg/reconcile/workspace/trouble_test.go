// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

type podOption func(*corev1.Pod)

// pods gives the workspace a pod of its Deployment for each option.
func pods(options ...podOption) option {
	return func(in *workspace.Input) {
		in.Pods = nil
		for i, change := range options {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "bank", Name: fmt.Sprintf("formspec-resource-shop-7d4f-%d", i),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "formspec-resource-shop-7d4f", Controller: new(true)}},
			}}
			change(pod)
			in.Pods = append(in.Pods, pod)
		}
	}
}

func all(options ...podOption) podOption {
	return func(pod *corev1.Pod) {
		for _, change := range options {
			change(pod)
		}
	}
}

func healthy(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

func starting(*corev1.Pod) {}

func unschedulable(message string) podOption {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
		})
	}
}

// container is the state of a pod's container.
func container(change func(*corev1.ContainerStatus)) podOption {
	return func(pod *corev1.Pod) {
		if len(pod.Status.ContainerStatuses) == 0 {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "formspec-resource"}}
		}
		change(&pod.Status.ContainerStatuses[0])
	}
}

func waits(reason, message string) podOption {
	return container(func(c *corev1.ContainerStatus) {
		c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

func runs(pod *corev1.Pod) {
	container(func(c *corev1.ContainerStatus) { c.State = corev1.ContainerState{} })(pod) // as the cache keeps it
}

// ended is a container that ended so many times, and how the last time.
func ended(times, exitCode int32, reason string) podOption {
	return container(func(c *corev1.ContainerStatus) {
		c.RestartCount = times
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: reason}
	})
}

func TestPodsTellWhyAWorkspaceIsNotReady(t *testing.T) {
	const noLabel = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
	const rpc = "rpc error: code = NotFound desc = not found"
	labelled := both(spec(func(s *v1alpha1.WorkspaceSpec) { s.Environment, s.Region = "prod", "jakarta" }), nodeType("dedicated"))

	for name, row := range map[string]struct {
		options []option
		reason  string
		message string // the whole of it; empty: that of a rollout under way
	}{
		"no pods yet":                    {nil, v1alpha1.ReasonRolloutInProgress, ""},
		"pods are starting":              {[]option{pods(starting, waitsForCreation)}, v1alpha1.ReasonRolloutInProgress, ""},
		"a pod has ended once":           {[]option{pods(all(ended(1, 1, "Error"), runs))}, v1alpha1.ReasonRolloutInProgress, ""},
		"a pod has ended once and waits": {[]option{pods(all(ended(1, 1, "Error"), waits("CrashLoopBackOff", "back-off 10s")))}, v1alpha1.ReasonRolloutInProgress, ""},

		"an image cannot be pulled": {
			[]option{pods(waits("ErrImagePull", rpc))},
			v1alpha1.ReasonImagePullBackOff, `image "formahub/formspec-resource:1.4.2" cannot be pulled: ` + rpc,
		},
		"an image cannot be pulled, between two attempts: the same words": {
			[]option{pods(waits("ImagePullBackOff", `Back-off pulling image "formahub/formspec-resource:1.4.2": ErrImagePull: `+rpc))},
			v1alpha1.ReasonImagePullBackOff, `image "formahub/formspec-resource:1.4.2" cannot be pulled: ` + rpc,
		},
		"an image cannot be pulled, and the first attempt is not known": {
			[]option{pods(waits("ImagePullBackOff", `Back-off pulling image "formahub/formspec-resource:1.4.2"`))},
			v1alpha1.ReasonImagePullBackOff, `image "formahub/formspec-resource:1.4.2" cannot be pulled: Back-off pulling image "formahub/formspec-resource:1.4.2"`,
		},
		"a registry does not answer": {
			[]option{pods(waits("RegistryUnavailable", "image pull failed"))},
			v1alpha1.ReasonImagePullBackOff, `image "formahub/formspec-resource:1.4.2" cannot be pulled: image pull failed`,
		},
		"a registry does not answer, between two attempts: the same words": {
			[]option{pods(waits("ImagePullBackOff", `Back-off pulling image "formahub/formspec-resource:1.4.2": RegistryUnavailable: image pull failed`))},
			v1alpha1.ReasonImagePullBackOff, `image "formahub/formspec-resource:1.4.2" cannot be pulled: image pull failed`,
		},
		"a signature does not verify": {
			[]option{pods(waits("SignatureValidationFailed", "image pull failed"))},
			v1alpha1.ReasonImagePullBackOff, `image "formahub/formspec-resource:1.4.2" cannot be pulled: image pull failed`,
		},
		"an image's name is none": {
			[]option{image("UPPER:1"), pods(waits("InvalidImageName", "couldn't parse image name"))},
			v1alpha1.ReasonImagePullBackOff, `image "UPPER:1" cannot be pulled: couldn't parse image name`,
		},

		"a crash loop, waiting": {
			[]option{pods(all(ended(3, 137, "OOMKilled"), waits("CrashLoopBackOff", "back-off 40s restarting failed container")))},
			v1alpha1.ReasonCrashLoopBackOff, crashed("formspec-resource-shop-7d4f-0", 137, "OOMKilled"),
		},
		"a crash loop, in the short life between two ends: the same words": {
			[]option{pods(all(ended(3, 137, "OOMKilled"), runs))},
			v1alpha1.ReasonCrashLoopBackOff, crashed("formspec-resource-shop-7d4f-0", 137, "OOMKilled"),
		},
		"a crash loop of one pod of two": {
			[]option{pods(healthy, all(ended(2, 1, "Error"), runs))},
			v1alpha1.ReasonCrashLoopBackOff, crashed("formspec-resource-shop-7d4f-1", 1, "Error"),
		},
		"a crash loop that is over": {
			[]option{pods(all(ended(7, 1, "Error"), runs, healthy))}, v1alpha1.ReasonRolloutInProgress, "",
		},

		"a container cannot be made": {
			[]option{pods(waits("CreateContainerConfigError", `configmap "x" not found`))},
			v1alpha1.ReasonContainerFailed, `the container of pod "formspec-resource-shop-7d4f-0" does not start: CreateContainerConfigError: configmap "x" not found`,
		},
		"a container cannot be started": {
			[]option{pods(waits("RunContainerError", "no such file"))},
			v1alpha1.ReasonContainerFailed, `the container of pod "formspec-resource-shop-7d4f-0" does not start: RunContainerError: no such file`,
		},

		"no node has the labels, and what to type": {
			[]option{labelled, settled, pods(unschedulable(noLabel))},
			v1alpha1.ReasonUnschedulable,
			"no node with room for the pods has all the labels formspec.dev/environment=prod, formspec.dev/region=jakarta, formspec.dev/tier=enterprise. " +
				"Label one that may run them: kubectl label node <node> formspec.dev/environment=prod formspec.dev/region=jakarta formspec.dev/tier=enterprise " +
				"(scheduler: " + noLabel + ")",
		},
		"nodes are full": {
			[]option{labelled, settled, pods(unschedulable("0/3 nodes are available: 3 Insufficient memory."))},
			v1alpha1.ReasonUnschedulable, "no node takes the pods: 0/3 nodes are available: 3 Insufficient memory.",
		},
		"no label is asked for": {
			[]option{pods(unschedulable(noLabel))}, v1alpha1.ReasonUnschedulable, "no node takes the pods: " + noLabel,
		},
		"a gate holds the pod: that is no failure": {
			[]option{pods(func(pod *corev1.Pod) {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
			})},
			v1alpha1.ReasonRolloutInProgress, "",
		},

		"a container's trouble tells more than a node's": {
			[]option{pods(unschedulable(noLabel), waits("ErrImagePull", rpc))},
			v1alpha1.ReasonImagePullBackOff, `image "formahub/formspec-resource:1.4.2" cannot be pulled: ` + rpc,
		},
		"two pods in trouble: the first by name, whatever their order": {
			[]option{pods(waits("RunContainerError", "first"), waits("RunContainerError", "second")), reversed},
			v1alpha1.ReasonContainerFailed, `the container of pod "formspec-resource-shop-7d4f-0" does not start: RunContainerError: first`,
		},
		"a pod on its way out does not count": {
			[]option{pods(all(waits("ErrImagePull", rpc), func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(start)) }))},
			v1alpha1.ReasonRolloutInProgress, "",
		},
		"a stranger's pod that carries our label does not count": {
			[]option{pods(all(waits("ErrImagePull", rpc), func(pod *corev1.Pod) { pod.OwnerReferences = nil }))},
			v1alpha1.ReasonRolloutInProgress, "",
		},
		"a pod of another ReplicaSet that carries our label does not count": {
			[]option{pods(all(waits("ErrImagePull", rpc), func(pod *corev1.Pod) { pod.OwnerReferences[0].Name = "cronjob-7d4f" }))},
			v1alpha1.ReasonRolloutInProgress, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(append([]option{minimum(2), settled}, row.options...)...)
			in = then(in, settled, rollout(2, 2, 0)) // nothing to write any more
			plan := workspace.Make(in)
			got := readyCondition(plan.Status)
			if row.message == "" {
				if got.Status != isUnknown || got.Reason != row.reason {
					t.Errorf("Ready is %s %s %q, want Unknown %s", got.Status, got.Reason, got.Message, row.reason)
				}
				return
			}
			if got.Status != isFalse || got.Reason != row.reason || got.Message != row.message {
				t.Errorf("Ready is %s %s\n got %q\nwant %s\n     %q", got.Status, got.Reason, got.Message, row.reason, row.message)
			}
			if stalled := conditionOf(plan.Status, v1alpha1.ConditionStalled); stalled.Type != "" {
				t.Errorf("Stalled is %s, want none: a pod may get well by itself", asJSON(stalled))
			}
		})
	}
}

func waitsForCreation(pod *corev1.Pod) { waits("ContainerCreating", "")(pod) }

func reversed(in *workspace.Input) { in.Pods[0], in.Pods[1] = in.Pods[1], in.Pods[0] }

func crashed(pod string, exitCode int, reason string) string {
	return fmt.Sprintf("the container of pod %q ends again and again, last with exit code %d (%s). See its log: kubectl -n bank logs %s --previous",
		pod, exitCode, reason, pod)
}

// A workspace that serves is not told of what its surplus pods suffer from.
func TestTroubleIsToldOnlyWhileTheRolloutIsIncomplete(t *testing.T) {
	in := given(minimum(1), settled, ready(1), pods(healthy, waits("ErrImagePull", "gone")))
	if got := readyCondition(workspace.Make(in).Status); got.Status != isTrue {
		t.Errorf("Ready is %s %s, want True", got.Status, got.Reason)
	}
	in = then(in, rollout(2, 1, 1))
	if got := readyCondition(workspace.Make(in).Status); got.Status != isFalse || !strings.Contains(got.Message, "gone") {
		t.Errorf("in the next rollout, Ready is %s %s, want False with the cause", got.Status, got.Reason)
	}
}
