// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

func use(u resourceclaim.Use) option {
	return func(in *resourceclaim.Input) { in.Role.Use = u }
}

// superseded is a claim whose login is in force, and then another was granted later.
var superseded = both(inForce, planned, rival("later", start.Add(-time.Minute)))

func TestAReplacedLoginIsKeptWhileItIsUsed(t *testing.T) {
	handed, running := use(resourceclaim.Handed), use(resourceclaim.Running)
	shared := datastore(func(s *v1alpha1.DatastoreSpec) { s.Roles = v1alpha1.RolesShared })
	kept := roleRow{status: isTrue, reason: v1alpha1.ReasonRoleInForce}
	replaced := func(after time.Duration) roleRow {
		return roleRow{status: isUnknown, reason: v1alpha1.ReasonRoleReplaced, after: after}
	}
	dropped := roleRow{drop: place, status: isFalse, reason: v1alpha1.ReasonRolePending}
	for name, row := range map[string]struct {
		options []option
		want    roleRow
	}{
		"the later claim has no login yet":             {[]option{superseded, handed}, kept},
		"and has none for a long time":                 {[]option{superseded, handed, planned, at(24 * time.Hour)}, kept},
		"pods from before may still run":               {[]option{superseded, running}, replaced(10 * time.Minute)},
		"they run on":                                  {[]option{superseded, running, planned, at(9 * time.Minute)}, replaced(time.Minute)},
		"their rollout makes no progress":              {[]option{superseded, running, planned, at(10 * time.Minute)}, dropped},
		"the rollout is complete":                      {[]option{superseded, running, planned, use(resourceclaim.NotUsed)}, dropped},
		"nobody ever used it":                          {[]option{superseded}, dropped},
		"roles are shared now, pods run":               {[]option{inForce, shared, running}, replaced(10 * time.Minute)},
		"roles are shared now, nothing took its place": {[]option{inForce, shared, handed}, kept},

		"what ends the grant ends it at once":        {[]option{inForce, refuse, handed}, dropped},
		"also while pods run":                        {[]option{superseded, running, planned, refuse}, dropped},
		"it is revoked while it is superseded":       {[]option{superseded, handed, revokedBefore(start.Add(-30 * time.Minute))}, dropped},
		"the claim for another workspace is another": {[]option{inForce, moved, handed}, dropped},
		"the datastore goes":                         {[]option{superseded, handed, datastoreDeleted}, dropped},
		"it was never put in force":                  {[]option{held, rival("later", start.Add(-time.Minute)), handed}, dropped},
		"the claim is deleted": {
			[]option{superseded, handed, deleted(0)}, roleRow{drop: place, status: isFalse, reason: v1alpha1.ReasonRolePending, after: time.Minute},
		},
		"the later claim goes": {
			[]option{superseded, running, planned, func(in *resourceclaim.Input) { in.Rivals = nil }}, kept,
		},
	} {
		t.Run(name, func(t *testing.T) {
			row.want.check(t, perClaim(row.options...))
		})
	}
}

func TestUseOf(t *testing.T) {
	secret := func(revision string, values ...string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationCredentials: revision}}, Data: map[string][]byte{}}
		for _, value := range values {
			s.Data["key of "+value] = []byte(value)
		}
		return s
	}
	deployment := func(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		d.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationCredentials: "r2"}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2}
		for _, f := range change {
			f(d)
		}
		return d
	}
	for name, row := range map[string]struct {
		secret     *corev1.Secret
		deployment *appsv1.Deployment
		want       resourceclaim.Use
	}{
		"nothing runs":              {secret("r1", "the-login"), nil, resourceclaim.NotUsed},
		"there are no credentials":  {nil, deployment(), resourceclaim.NotUsed},
		"it is handed to pods":      {secret("r2", "another", "the-login"), deployment(), resourceclaim.Handed},
		"a part of a value is none": {secret("r2", "postgres://the-login@h"), deployment(), resourceclaim.NotUsed},
		"the rollout is complete":   {secret("r2", "another"), deployment(), resourceclaim.NotUsed},
		"the rollout comes":         {secret("r3", "another"), deployment(), resourceclaim.Running},
		"the rollout begins": {
			secret("r2", "another"), deployment(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 1 }), resourceclaim.Running,
		},
		"an old pod runs": {
			secret("r2", "another"), deployment(func(d *appsv1.Deployment) { d.Status.Replicas = 3 }), resourceclaim.Running,
		},
		"an old pod is ending": {
			secret("r2", "another"), deployment(func(d *appsv1.Deployment) { d.Status.TerminatingReplicas = new(int32(1)) }), resourceclaim.Running,
		},
		"it sleeps": {
			secret("r2", "another"), deployment(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{ObservedGeneration: 2} }), resourceclaim.NotUsed,
		},
		"nothing is injected any more": {
			&corev1.Secret{}, deployment(func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil }), resourceclaim.NotUsed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resourceclaim.UseOf([]byte("the-login"), row.secret, row.deployment); got != row.want {
				t.Errorf("it is %d, want %d", got, row.want)
			}
		})
	}
	if got := resourceclaim.UseOf(nil, secret("r2", ""), deployment()); got != resourceclaim.NotUsed {
		t.Errorf("no login is used: %d", got)
	}
}
