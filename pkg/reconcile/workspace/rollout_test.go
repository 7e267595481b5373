// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

const (
	isTrue    = metav1.ConditionTrue
	isFalse   = metav1.ConditionFalse
	isUnknown = metav1.ConditionUnknown
)

// TestReady reads Deployments of a class minimum of two replicas.
func TestReady(t *testing.T) {
	firstRollout := both(minimum(2), settled, progressing(corev1.ConditionTrue, "ReplicaSetUpdated", "is progressing"))
	running := both(minimum(2), settled, ready(2), settled)
	autoscaled := both(minimum(2), autoScaling, settled, ready(2), settled)
	sleeping := both(minimum(2), scaleToZero, settled, ready(2), idle, settled, rollout(0, 0, 0), settled)
	nextRollout := both(resources("1", "1Gi"), planned, progressing(corev1.ConditionTrue, "ReplicaSetUpdated", "is progressing"))

	for name, row := range map[string]struct {
		options []option
		status  metav1.ConditionStatus
		reason  string
		message string
		phase   v1alpha1.Phase
	}{
		// The first rollout.
		"the Deployment is about to be made": {
			[]option{minimum(2)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "0 of 2 replicas updated, 0 available", v1alpha1.PhasePending,
		},
		"the Deployment has not been looked at": {
			[]option{minimum(2), settled}, isUnknown, v1alpha1.ReasonRolloutInProgress, "0 of 2 replicas updated, 0 available", v1alpha1.PhasePending,
		},
		"one of two replicas is made": {
			[]option{firstRollout, rollout(1, 1, 0)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "1 of 2 replicas updated, 0 available", v1alpha1.PhasePending,
		},
		"one of two replicas is available": {
			[]option{firstRollout, rollout(2, 2, 1)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "2 of 2 replicas updated, 1 available", v1alpha1.PhasePending,
		},
		"both replicas are available": {
			[]option{firstRollout, rollout(2, 2, 2)}, isTrue, v1alpha1.ReasonAvailable, "at least 2 replicas are available", v1alpha1.PhaseReady,
		},
		"one replica of a class without a minimum is available": {
			[]option{settled, rollout(1, 1, 1)}, isTrue, v1alpha1.ReasonAvailable, "at least 1 replica is available", v1alpha1.PhaseReady,
		},

		// The next one.
		"the next revision is about to be written": {
			[]option{running, resources("1", "1Gi")}, isUnknown, v1alpha1.ReasonRolloutInProgress, "0 of 2 replicas updated, 2 available", v1alpha1.PhasePending,
		},
		"the next revision has not been looked at: the numbers are those of the old one": {
			[]option{running, resources("1", "1Gi"), planned}, isUnknown, v1alpha1.ReasonRolloutInProgress, "waiting for the rollout", v1alpha1.PhasePending,
		},
		"the surge replica is coming up, the old ones serve": {
			[]option{running, nextRollout, rollout(3, 1, 2)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "1 of 2 replicas updated, 2 available", v1alpha1.PhasePending,
		},
		"an old replica is still there": {
			[]option{running, nextRollout, rollout(3, 2, 3)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "2 of 2 replicas updated, 3 available", v1alpha1.PhasePending,
		},
		"the next revision is complete": {
			[]option{running, nextRollout, rollout(2, 2, 2)}, isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},
		"a rollout at a count of the autoscaler's: enough new ones do not make it complete": {
			[]option{autoscaled, scaled(5), rollout(5, 5, 5), planned, nextRollout, rollout(6, 3, 5)},
			isUnknown, v1alpha1.ReasonRolloutInProgress, "3 of 5 replicas updated, 5 available", v1alpha1.PhasePending,
		},
		"a rollout that somebody restarted": {
			[]option{running, deployment(func(d *appsv1.Deployment) { d.Generation++ }), rollout(3, 1, 2)},
			isUnknown, v1alpha1.ReasonRolloutInProgress, "", v1alpha1.PhasePending,
		},

		// What does not make a running workspace less ready.
		"the autoscaler has just written a higher count": {
			[]option{autoscaled, scaled(5)}, isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},
		"the autoscaler's replicas are coming up": {
			[]option{autoscaled, scaled(5), rollout(5, 5, 2)}, isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},
		"the autoscaler's replicas find no room": {
			[]option{autoscaled, scaled(5), rollout(5, 5, 2), pods(unschedulable("0/3 nodes are available: 3 Insufficient cpu."))},
			isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},
		"a quota refuses the autoscaler's replicas": {
			[]option{autoscaled, scaled(5), rollout(2, 2, 2), deploymentCondition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", "exceeded quota: q")},
			isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},
		"a loss above the minimum": {
			[]option{autoscaled, scaled(5), rollout(5, 5, 5), planned, rollout(5, 5, 2)}, isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},

		"a label of ours on the Deployment is put back, which rolls nothing": {
			[]option{running, func(in *workspace.Input) { delete(in.Children.Deployment.Ours.Labels, v1alpha1.LabelManagedBy) }},
			isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},
		"the count is taken over from the autoscaler, which rolls nothing": {
			[]option{autoscaled, scaled(5), rollout(5, 5, 5), planned, noAutoScaling}, isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},

		"the workspace itself has changed as well: only what is looked at counts for its new generation": {
			[]option{autoscaled, olderStatus, scaled(5)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "2 of 5 replicas updated, 2 available", v1alpha1.PhasePending,
		},

		// Losses.
		"a loss below the minimum": {
			[]option{running, rollout(2, 2, 1)}, isFalse, v1alpha1.ReasonMinimumUnavailable, "1 of at least 2 replicas are available", v1alpha1.PhaseDegraded,
		},
		"a loss below the minimum under an autoscaler": {
			[]option{autoscaled, scaled(5), rollout(5, 5, 5), planned, rollout(5, 5, 1)}, isFalse, v1alpha1.ReasonMinimumUnavailable, "1 of at least 2", v1alpha1.PhaseDegraded,
		},
		"a replica is lost and its place is empty": {
			[]option{running, rollout(1, 1, 1)}, isFalse, v1alpha1.ReasonMinimumUnavailable, "1 of at least 2", v1alpha1.PhaseDegraded,
		},
		"a replica is lost and its place is taken by one that starts": {
			[]option{running, rollout(1, 1, 1), planned, rollout(2, 2, 1)}, isFalse, v1alpha1.ReasonMinimumUnavailable, "1 of at least 2", v1alpha1.PhaseDegraded,
		},
		"a loss whose cause is over, before the replica is back": {
			[]option{running, rollout(2, 2, 1), pods(unschedulable("no room")), planned, pods(), rollout(2, 2, 1)},
			isFalse, v1alpha1.ReasonMinimumUnavailable, "1 of at least 2", v1alpha1.PhaseDegraded,
		},
		"a loss that lasts": {
			[]option{running, rollout(2, 2, 1), planned, rollout(2, 2, 0)}, isFalse, v1alpha1.ReasonMinimumUnavailable, "0 of at least 2", v1alpha1.PhaseDegraded,
		},
		"a loss that is over": {
			[]option{running, rollout(2, 2, 1), planned, rollout(2, 2, 2)}, isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},

		// A count on its way up is no loss, though the Deployment goes on to call its rollout complete.
		"a higher minimum is coming up": {
			[]option{running, minimum(3), planned, rollout(3, 3, 2)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "3 of 3 replicas updated, 2 available", v1alpha1.PhasePending,
		},
		"a higher minimum has come up": {
			[]option{running, minimum(3), planned, rollout(3, 3, 2), planned, rollout(3, 3, 3)}, isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},
		"a higher minimum that the autoscaler has not acted on": {
			[]option{autoscaled, minimum(3)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "2 of 3 replicas updated, 2 available", v1alpha1.PhasePending,
		},
		"a higher minimum that the autoscaler brings up": {
			[]option{autoscaled, minimum(3), planned, scaled(3), rollout(3, 3, 2)}, isUnknown, v1alpha1.ReasonRolloutInProgress, "3 of 3 replicas updated, 2 available", v1alpha1.PhasePending,
		},
		"a wake": {
			[]option{sleeping, busy}, isUnknown, v1alpha1.ReasonWaking, "0 of 2 replicas updated", v1alpha1.PhasePending,
		},
		"a wake whose pods are starting": {
			[]option{sleeping, busy, planned, rollout(2, 2, 1)}, isUnknown, v1alpha1.ReasonWaking, "2 of 2 replicas updated, 1 available", v1alpha1.PhasePending,
		},
		"a wake by somebody's hand": {
			[]option{autoscaled, scaleToZero, idle, settled, rollout(0, 0, 0), settled, scaled(2), busy, rollout(2, 2, 0)}, isUnknown, v1alpha1.ReasonWaking, "2 of 2 replicas updated, 0 available", v1alpha1.PhasePending,
		},
		"a wake that is complete": {
			[]option{sleeping, busy, planned, rollout(2, 2, 1), planned, rollout(2, 2, 2)}, isTrue, v1alpha1.ReasonAvailable, "", v1alpha1.PhaseReady,
		},
		"a loss after a wake": {
			[]option{sleeping, busy, planned, rollout(2, 2, 2), planned, rollout(2, 2, 1)}, isFalse, v1alpha1.ReasonMinimumUnavailable, "", v1alpha1.PhaseDegraded,
		},

		// Failures that the Deployment tells.
		"a quota refuses the pods": {
			[]option{firstRollout, rollout(1, 1, 1), deploymentCondition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", `pods "a" is forbidden: exceeded quota: small, requested: cpu=1`)},
			isFalse, v1alpha1.ReasonQuotaExceeded, "Raise the namespace's ResourceQuota, or ask for less: pods", v1alpha1.PhasePending,
		},
		"a quota that wants limits to be stated refuses the pods": {
			[]option{firstRollout, rollout(0, 0, 0), deploymentCondition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", `pods "a" is forbidden: failed quota: q: must specify limits.cpu`)},
			isFalse, v1alpha1.ReasonQuotaExceeded, "must specify limits.cpu", v1alpha1.PhasePending,
		},
		"a policy refuses the pods": {
			[]option{firstRollout, rollout(0, 0, 0), deploymentCondition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", `admission webhook "no" denied the request`)},
			isFalse, v1alpha1.ReasonRefused, `Change the policy, or what it objects to: admission webhook "no"`, v1alpha1.PhasePending,
		},
		"pods are refused no longer": {
			[]option{firstRollout, rollout(1, 1, 1), deploymentCondition(appsv1.DeploymentReplicaFailure, corev1.ConditionFalse, "FailedCreate", "exceeded quota")},
			isUnknown, v1alpha1.ReasonRolloutInProgress, "", v1alpha1.PhasePending,
		},
		"the rollout makes no progress": {
			[]option{firstRollout, rollout(2, 2, 0), progressing(corev1.ConditionFalse, "ProgressDeadlineExceeded", `ReplicaSet "shop-7d4f" has timed out progressing.`)},
			isFalse, v1alpha1.ReasonDeadlineExceeded, `makes no progress: ReplicaSet "shop-7d4f" has timed out`, v1alpha1.PhasePending,
		},
		"the next rollout makes no progress while the old replicas serve": {
			[]option{running, nextRollout, rollout(3, 1, 2), progressing(corev1.ConditionFalse, "ProgressDeadlineExceeded", "timed out")},
			isFalse, v1alpha1.ReasonDeadlineExceeded, "", v1alpha1.PhaseDegraded,
		},
		"a failed rollout was replaced by one that has not been looked at": {
			[]option{firstRollout, rollout(2, 2, 0), progressing(corev1.ConditionFalse, "ProgressDeadlineExceeded", "timed out"), planned, resources("1", "1Gi"), planned},
			isUnknown, v1alpha1.ReasonRolloutInProgress, "", v1alpha1.PhasePending,
		},

		// What wins over the rollout.
		"asleep": {
			[]option{sleeping}, isTrue, v1alpha1.ReasonAsleep, "its next request wakes it", v1alpha1.PhaseSleeping,
		},
		"falling asleep": {
			[]option{running, scaleToZero, settled, idle}, isTrue, v1alpha1.ReasonAsleep, "", v1alpha1.PhaseSleeping,
		},
		"a write was refused": {
			[]option{running, refused(reconcile.Refused("a write is refused", "exceeded quota: q"))}, isFalse, v1alpha1.ReasonQuotaExceeded, "a write is refused. Raise", v1alpha1.PhaseDegraded,
		},
		"deleted": {
			[]option{running, deleted}, isFalse, v1alpha1.ReasonTerminating, "", v1alpha1.PhaseTerminating,
		},
		"deleted while an obstacle stands": {
			[]option{running, noClass, deleted}, isFalse, v1alpha1.ReasonTerminating, "", v1alpha1.PhaseTerminating,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := workspace.Make(given(row.options...)).Status
			got := readyCondition(status)
			if got.Status != row.status || got.Reason != row.reason || !strings.Contains(got.Message, row.message) {
				t.Errorf("Ready is %s %s %q, want %s %s with %q", got.Status, got.Reason, got.Message, row.status, row.reason, row.message)
			}
			if status.Phase != row.phase {
				t.Errorf("phase %s, want %s", status.Phase, row.phase)
			}
			checkSummaries(t, status)
		})
	}
}

func refused(r reconcile.Refusal) option {
	return func(in *workspace.Input) { in.Refusal = &r }
}

// olderStatus: the status is of the generation before.
func olderStatus(in *workspace.Input) {
	in.Workspace = in.Workspace.DeepCopy()
	for i := range in.Workspace.Status.Conditions {
		in.Workspace.Status.Conditions[i].ObservedGeneration--
	}
}

// checkSummaries: the other conditions follow from Ready and the phase.
func checkSummaries(t *testing.T, status v1alpha1.WorkspaceStatus) {
	t.Helper()
	ready := readyCondition(status)
	if got := conditionOf(status, v1alpha1.ConditionProgressing); (got.Status == isTrue) != (ready.Status == isUnknown) || got.Reason == "" {
		t.Errorf("Progressing is %s while Ready is %s", asJSON(got), ready.Status)
	}
	if got := conditionOf(status, v1alpha1.ConditionDegraded); (got.Status == isTrue) != (status.Phase == v1alpha1.PhaseDegraded) || got.Reason == "" {
		t.Errorf("Degraded is %s in phase %s", asJSON(got), status.Phase)
	}
	mustAct := ready.Status == isFalse && (ready.Reason == v1alpha1.ReasonQuotaExceeded || ready.Reason == v1alpha1.ReasonRefused)
	if got := conditionOf(status, v1alpha1.ConditionStalled); (got.Status == isTrue) != mustAct || got.Status == isFalse {
		t.Errorf("Stalled is %s while Ready says %s", asJSON(got), ready.Reason)
	}
	for _, c := range status.Conditions {
		if c.ObservedGeneration != 3 || c.LastTransitionTime.IsZero() {
			t.Errorf("%s does not tell its generation and time: %s", c.Type, asJSON(c))
		}
	}
	if status.ObservedGeneration != 3 {
		t.Errorf("observedGeneration is %d, want 3", status.ObservedGeneration)
	}
}
