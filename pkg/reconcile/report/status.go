// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// Status is how a Workspace is, without the messages of its conditions, which quote what users wrote. deployment is its own, or nil.
// False: the Workspace has not been looked at yet, so that there is nothing to tell. Source: contract §5.4.
func Status(ws *v1alpha1.Workspace, deployment *appsv1.Deployment) (clustercontrol.StatusRecord, bool) {
	if ws.Status.Phase == "" {
		return clustercontrol.StatusRecord{}, false
	}
	record := clustercontrol.StatusRecord{
		Namespace: ws.Namespace, Workspace: ws.Name, UID: ws.UID, Phase: string(ws.Status.Phase),
		ReadyReplicas: ws.Status.ReadyReplicas, Conditions: []clustercontrol.Condition{}, ObservedGeneration: ws.Status.ObservedGeneration,
	}
	for _, c := range ws.Status.Conditions {
		record.Conditions = append(record.Conditions, clustercontrol.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason})
	}
	if deployment != nil {
		record.DesiredReplicas = ptr.Deref(deployment.Spec.Replicas, 1)
	}
	if consumed(ws, deployment) {
		record.RestartRequiredConsumed = ws.Status.Artifact.Cursor
	}
	return record, true
}

// Gone is the last status of a Workspace: it has ended, whatever it was before.
func Gone(last clustercontrol.StatusRecord) clustercontrol.StatusRecord {
	return clustercontrol.StatusRecord{
		Namespace: last.Namespace, Workspace: last.Workspace, UID: last.UID, Phase: string(v1alpha1.PhaseTerminating),
		Conditions: []clustercontrol.Condition{}, ObservedGeneration: last.ObservedGeneration,
	}
}

// consumed says that the newest restart request was carried out: no pod of before is left. A Workspace at zero replicas has none.
func consumed(ws *v1alpha1.Workspace, deployment *appsv1.Deployment) bool {
	artifact := ws.Status.Artifact
	return artifact != nil && artifact.Cursor > 0 && deployment != nil &&
		deployment.Spec.Template.Annotations[v1alpha1.AnnotationArtifactHash] == artifact.Hash && rolledOut(deployment)
}

// rolledOut is what "kubectl rollout status" waits for.
func rolledOut(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && s.UpdatedReplicas >= ptr.Deref(d.Spec.Replicas, 1) &&
		s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= s.UpdatedReplicas
}
