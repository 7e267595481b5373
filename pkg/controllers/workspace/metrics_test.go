// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	formspecv1alpha1 "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
)

func TestMetricsCountSleepers(t *testing.T) {
	var scopes []formspecv1alpha1.TypedWorkspaceInformer
	for _, phases := range [][]v1alpha1.Phase{{v1alpha1.PhaseSleeping, v1alpha1.PhaseReady}, {v1alpha1.PhaseSleeping, v1alpha1.PhasePending, v1alpha1.PhaseDegraded}} {
		informer := formspecinformers.NewSharedInformerFactory(formspecfake.NewClientset(), 0).Formspec().V1alpha1().Workspaces()
		for _, phase := range phases {
			ws := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: strings.ToLower(string(phase))}, Status: v1alpha1.WorkspaceStatus{Phase: phase}}
			if err := informer.Informer().GetStore().Add(ws); err != nil {
				t.Fatal(err)
			}
		}
		scopes = append(scopes, informer)
	}
	registry := metrics.NewKubeRegistry()
	if err := RegisterMetrics(registry, scopes); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			got[family.GetName()+" "+metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	if want := map[string]float64{"formspec_workspaces asleep": 2, "formspec_workspaces awake": 3}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
