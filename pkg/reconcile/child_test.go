// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile"
)

type child = reconcile.Child[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]

var (
	start = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)
	live  = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "uid", ResourceVersion: "7"}}
	want  = configMap(map[string]string{"region": "jakarta"})
	other = configMap(map[string]string{"region": "surabaya"})
)

func TestDiffers(t *testing.T) {
	for name, row := range map[string]struct {
		child child
		want  bool
	}{
		"nothing is there":                 {child{}, true},
		"it is as wanted":                  {child{Live: live, Ours: configMap(map[string]string{"region": "jakarta"})}, false},
		"a value is another":               {child{Live: live, Ours: other}, true},
		"it has what is not wanted":        {child{Live: live, Ours: configMap(map[string]string{"region": "jakarta", "x": "y"})}, true},
		"it lacks what is wanted":          {child{Live: live, Ours: configMap(nil)}, true},
		"fields are another operator's":    {child{Live: live, Ours: want, Legacy: true}, true},
		"a rewritten one is a matter too":  {child{Live: live, Ours: other, Rewritten: &reconcile.Rewritten{At: start}}, true},
		"none of it is ours, as once made": {child{Live: live, Ours: &corev1ac.ConfigMapApplyConfiguration{}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := row.child.Differs(want); got != row.want {
				t.Errorf("differs: %v, want %v", got, row.want)
			}
		})
	}
}

func TestOverridden(t *testing.T) {
	rewritten := func(asked, got reconcile.Config) *reconcile.Rewritten {
		return &reconcile.Rewritten{
			Asked: reconcile.Fingerprint(asked), Got: reconcile.Fingerprint(got), Fields: reconcile.Differences(asked, got), At: start,
		}
	}
	unlabelled := configMap(map[string]string{"region": "jakarta"}).WithLabels(map[string]string{"app.kubernetes.io/managed-by": "them"})
	soon := start.Add(time.Minute)
	for name, row := range map[string]struct {
		child child
		now   time.Time
		want  bool
	}{
		"it arrived as it was sent":             {child{Live: live, Ours: other}, soon, false},
		"it was changed to what it still is":    {child{Live: live, Ours: other, Rewritten: rewritten(want, other)}, soon, true},
		"long ago: one more attempt":            {child{Live: live, Ours: other, Rewritten: rewritten(want, other)}, start.Add(reconcile.OverriddenRetry), false},
		"just before that":                      {child{Live: live, Ours: other, Rewritten: rewritten(want, other)}, start.Add(reconcile.OverriddenRetry - time.Second), true},
		"something else is wanted now":          {child{Live: live, Ours: other, Rewritten: rewritten(configMap(nil), other)}, soon, false},
		"somebody changed it to something else": {child{Live: live, Ours: other, Rewritten: rewritten(want, configMap(nil))}, soon, false},
		"only the preconditions differ":         {child{Live: live, Ours: other, Rewritten: rewritten(configMap(map[string]string{"region": "jakarta"}).WithUID("u"), other)}, soon, true},
		"it lost the label that we select by":   {child{Rewritten: rewritten(want, unlabelled)}, soon, true},
		"so it did, long ago":                   {child{Rewritten: rewritten(want, unlabelled)}, start.Add(reconcile.OverriddenRetry), false},
		"it was changed, and then deleted":      {child{Rewritten: rewritten(want, other)}, soon, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := row.child.Overridden(want, row.now); got != row.want {
				t.Errorf("overridden: %v, want %v", got, row.want)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	if got := (child{}).Write(want); got != (reconcile.Write{Config: want, Create: true}) {
		t.Errorf("the write of what is missing is %+v, want a creation", got)
	}
	if got := (child{Live: live}).Write(want); got != (reconcile.Write{Config: want, UID: "uid"}) {
		t.Errorf("the write of what is there is %+v, want a change of just that object", got)
	}
	if got := (child{Live: live, Legacy: true}).Write(want); got != (reconcile.Write{Config: want, UID: "uid", Adopt: true}) {
		t.Errorf("the write of what another operator made is %+v, want a take-over", got)
	}
}

func TestLegacy(t *testing.T) {
	for name, row := range map[string]struct {
		entry metav1.ManagedFieldsEntry
		want  bool
	}{
		"its update":               {metav1.ManagedFieldsEntry{Manager: "formspec-operator", Operation: metav1.ManagedFieldsOperationUpdate}, true},
		"its update of the status": {metav1.ManagedFieldsEntry{Manager: "formspec-operator", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"}, false},
		"an apply under its name":  {metav1.ManagedFieldsEntry{Manager: "formspec-operator", Operation: metav1.ManagedFieldsOperationApply}, false},
		"somebody else's update":   {metav1.ManagedFieldsEntry{Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate}, false},
		"our own apply":            {metav1.ManagedFieldsEntry{Manager: "formspec-workspace", Operation: metav1.ManagedFieldsOperationApply}, false},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{}
			object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationApply}, row.entry}
			if got := reconcile.Legacy(object); got != row.want {
				t.Errorf("legacy: %v, want %v", got, row.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for message, reason := range map[string]string{
		`pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`:                 "QuotaExceeded",
		`pods "x" is forbidden: failed quota: q: must specify requests.memory`:                                       "QuotaExceeded",
		`pods "x" is forbidden: violates PodSecurity "restricted:latest"`:                                            "Refused",
		`deployments.apps "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no quota`: "Refused",
	} {
		got := reconcile.Refused("the pods are refused", message)
		if got.Reason != reason || !got.Stalled {
			t.Errorf("%q is %s (stalled: %v), want %s, stalled", message, got.Reason, got.Stalled, reason)
		}
		if wantEnd := ": " + message; got.Message[len(got.Message)-len(wantEnd):] != wantEnd {
			t.Errorf("the message %q does not end in the API server's own words", got.Message)
		}
	}
}

// A webhook that is away may come back by itself, and the words of the next attempt would be others.
func TestRefusedByAWebhookThatDoesNotAnswer(t *testing.T) {
	const message = `Internal error occurred: failed calling webhook "deny.example.com": failed to call webhook: Post "https://10.0.0.1:443/": read tcp 10.0.0.9:%s->10.0.0.1:443: reset`
	first := reconcile.Refused("the pods are refused", strings.Replace(message, "%s", "40001", 1))
	second := reconcile.Refused("the pods are refused", strings.Replace(message, "%s", "40002", 1))
	if first != second || first.Reason != "Refused" || first.Stalled || !strings.Contains(first.Message, `webhook "deny.example.com"`) {
		t.Errorf("the refusals are %+v and %+v, want one that names the webhook and is not stalled", first, second)
	}
	if name := reconcile.SilentWebhook(`admission webhook "deny.example.com" denied the request`); name != "" {
		t.Errorf("the webhook %q has answered", name)
	}
}
