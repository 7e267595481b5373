// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

func TestPodLife(t *testing.T) {
	now := time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)
	at := func(offset time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(offset))) }
	began := at(-time.Hour)
	ended := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: *at(-time.Minute)}}
	for name, row := range map[string]struct {
		pod  corev1.Pod
		gone bool
		want metering.Life
	}{
		"waits for a node": {corev1.Pod{}, false, metering.Life{}},
		"never got one":    {corev1.Pod{}, true, metering.Life{}},
		"runs":             {corev1.Pod{Status: corev1.PodStatus{StartTime: began, Phase: corev1.PodRunning}}, false, metering.Life{Start: began.Time}},
		"is deleted":       {corev1.Pod{Status: corev1.PodStatus{StartTime: began}}, true, metering.Life{Start: began.Time, End: now}},
		"is being deleted": {
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at(30 * time.Second)}, Status: corev1.PodStatus{StartTime: began}},
			false,
			metering.Life{Start: began.Time},
		},
		"is deleted before its time is up": {
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at(20 * time.Second)}, Status: corev1.PodStatus{StartTime: began}},
			true,
			metering.Life{Start: began.Time, End: now},
		},
		"was on a node that is lost": {
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at(-10 * time.Minute)}, Status: corev1.PodStatus{StartTime: began}},
			true,
			metering.Life{Start: began.Time, End: at(-10 * time.Minute).Time},
		},
		"was evicted": {
			corev1.Pod{Status: corev1.PodStatus{StartTime: began, Phase: corev1.PodFailed, Conditions: ended}},
			false,
			metering.Life{Start: began.Time, End: at(-time.Minute).Time},
		},
		"was evicted, and then deleted": {
			corev1.Pod{Status: corev1.PodStatus{StartTime: began, Phase: corev1.PodFailed, Conditions: ended}},
			true,
			metering.Life{Start: began.Time, End: at(-time.Minute).Time},
		},
		"has ended, nobody says when": {
			corev1.Pod{Status: corev1.PodStatus{StartTime: began, Phase: corev1.PodSucceeded}},
			false,
			metering.Life{Start: began.Time, End: now, Untold: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := report.PodLife(&row.pod, now, row.gone); got != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

func TestStorage(t *testing.T) {
	stores := func(name string, gigabytes int64) *v1alpha1.Datastore {
		ds := datastore(name, v1alpha1.DriverPostgres, true)
		ds.Status.StorageGB = gigabytes
		return ds
	}
	claim := func(datastore, workspace string, approved metav1.ConditionStatus) *v1alpha1.ResourceClaim {
		return &v1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank"}, Spec: v1alpha1.ResourceClaimSpec{Datastore: datastore, Workspace: workspace},
			Status: v1alpha1.ResourceClaimStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: approved}}},
		}
	}
	elsewhere := claim("shared", "web", metav1.ConditionTrue)
	elsewhere.Namespace = "other"
	got := report.Storage(
		[]*v1alpha1.Datastore{stores("shared", 10), stores("own", 3), stores("unknown", 0)},
		[]*v1alpha1.ResourceClaim{
			claim("shared", "web", metav1.ConditionTrue), claim("shared", "web", metav1.ConditionTrue), claim("shared", "api", metav1.ConditionTrue),
			claim("shared", "denied", metav1.ConditionFalse), claim("own", "web", metav1.ConditionTrue), claim("unknown", "blind", metav1.ConditionTrue),
			claim("absent", "web", metav1.ConditionTrue), elsewhere,
		})
	want := map[types.NamespacedName]int64{{Namespace: "bank", Name: "web"}: 8 << 30, {Namespace: "bank", Name: "api"}: 5 << 30}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
