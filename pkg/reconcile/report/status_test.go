// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

func workspace() *v1alpha1.Workspace {
	return &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "web", UID: "u1", Annotations: map[string]string{"note": "tenant-secret"}},
		Spec:       v1alpha1.WorkspaceSpec{Owner: "tenant-secret"},
		Status: v1alpha1.WorkspaceStatus{
			Phase: v1alpha1.PhaseReady, ReadyReplicas: 2, ObservedGeneration: 4, Artifact: &v1alpha1.ArtifactStatus{Hash: "h2", Version: "2", Cursor: 7},
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Available", Message: "tenant-secret"}},
		},
	}
}

// rolled is a Deployment whose rollout is complete.
func rolled(hash string, replicas int32) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	d.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationArtifactHash: hash}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: replicas, UpdatedReplicas: replicas, AvailableReplicas: replicas, ReadyReplicas: replicas}
	return d
}

func TestStatus(t *testing.T) {
	got, known := report.Status(workspace(), rolled("h2", 3))
	text, err := json.Marshal(got)
	want := `{"namespace":"bank","workspace":"web","uid":"u1","phase":"Ready","ready_replicas":2,"desired_replicas":3,` +
		`"conditions":[{"type":"Ready","status":"True","reason":"Available"}],"observed_generation":4,"restart_required_consumed":7}`
	if err != nil || !known || string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if strings.Contains(string(text), "tenant-secret") {
		t.Error("what a tenant wrote is reported")
	}
}

func TestStatusOfAWorkspaceThatNobodyHasLookedAt(t *testing.T) {
	if got, known := report.Status(&v1alpha1.Workspace{}, nil); known {
		t.Errorf("got %+v", got)
	}
}

func TestStatusWithoutADeployment(t *testing.T) {
	got, known := report.Status(workspace(), nil)
	if !known || got.DesiredReplicas != 0 || got.RestartRequiredConsumed != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestRestartIsConsumed(t *testing.T) {
	for name, row := range map[string]struct {
		change   func(ws *v1alpha1.Workspace, d *appsv1.Deployment)
		consumed bool
	}{
		"rolled out":                     {func(*v1alpha1.Workspace, *appsv1.Deployment) {}, true},
		"asleep, with nobody to restart": {func(_ *v1alpha1.Workspace, d *appsv1.Deployment) { *d = *rolled("h2", 0) }, true},
		"the template is of before":      {func(_ *v1alpha1.Workspace, d *appsv1.Deployment) { *d = *rolled("h1", 3) }, false},
		"not observed yet":               {func(_ *v1alpha1.Workspace, d *appsv1.Deployment) { d.Generation++ }, false},
		"a pod of before is left":        {func(_ *v1alpha1.Workspace, d *appsv1.Deployment) { d.Status.Replicas++ }, false},
		"a new pod is not available":     {func(_ *v1alpha1.Workspace, d *appsv1.Deployment) { d.Status.AvailableReplicas-- }, false},
		"a new pod is not there":         {func(_ *v1alpha1.Workspace, d *appsv1.Deployment) { d.Status.UpdatedReplicas-- }, false},
		"by the annotation, not asked":   {func(ws *v1alpha1.Workspace, _ *appsv1.Deployment) { ws.Status.Artifact.Cursor = 0 }, false},
		"never":                          {func(ws *v1alpha1.Workspace, _ *appsv1.Deployment) { ws.Status.Artifact = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			ws, d := workspace(), rolled("h2", 3)
			row.change(ws, d)
			if got, _ := report.Status(ws, d); (got.RestartRequiredConsumed == 7) != row.consumed {
				t.Errorf("consumed %d", got.RestartRequiredConsumed)
			}
		})
	}
}

func TestGone(t *testing.T) {
	last, _ := report.Status(workspace(), rolled("h2", 3))
	got := report.Gone(last)
	if got.UID != "u1" || got.Workspace != "web" || got.Namespace != "bank" || got.Phase != "Terminating" ||
		got.ReadyReplicas != 0 || got.DesiredReplicas != 0 || got.Conditions == nil {
		t.Errorf("got %+v", got)
	}
}
