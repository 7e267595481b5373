// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"bytes"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// ReplacedDeadline is how long a login that was replaced waits for the rollout that brings its successor to the pods. A Deployment gives
// up on a rollout without progress after as long.
const ReplacedDeadline = 10 * time.Minute

// Use says whether the workspace still needs a login that the claim is not to have any more.
type Use int

const (
	// NotUsed means that no pod runs with the login. It is the zero value.
	NotUsed Use = iota
	// Handed means that the workspace's credentials Secret has the login: nothing has taken its place yet.
	Handed
	// Running means that something has taken its place, and that pods from before may still run.
	Running
)

// UseOf finds out who uses the login of that user, from the workspace's credentials Secret and Deployment. Nil: there is none.
//
// The Secret is written before the Deployment, and both bear one revision. So once a rollout of the Secret's revision is complete, each pod
// has read what the Secret has now. Before Kubernetes 1.35 a Deployment does not tell how many of its pods are still ending.
func UseOf(user []byte, credentials *corev1.Secret, deployment *appsv1.Deployment) Use {
	if len(user) == 0 || deployment == nil || credentials == nil {
		return NotUsed
	}
	for _, value := range credentials.Data {
		if bytes.Equal(value, user) {
			return Handed
		}
	}
	status, template := deployment.Status, deployment.Spec.Template
	if template.Annotations[v1alpha1.AnnotationCredentials] != credentials.Annotations[v1alpha1.AnnotationCredentials] ||
		status.ObservedGeneration < deployment.Generation || status.UpdatedReplicas < status.Replicas || ptr.Deref(status.TerminatingReplicas, 0) > 0 {
		return Running
	}
	return NotUsed
}

// keepReplaced keeps the login in force as long as the workspace needs it, if the grant itself is good and only something else has taken its
// place: a later grant, or the datastore's own credentials. What ends a grant ends its login at once. Nil: the login can go.
func (in Input) keepReplaced(v Verdict, p *Plan) *metav1.Condition {
	good := v.Approved || v.Reason == v1alpha1.ReasonSuperseded
	ds := in.Datastore
	if !good || ds == nil || ds.DeletionTimestamp != nil || in.Claim.DeletionTimestamp != nil || in.Place() != in.granted() || !in.loginInForce() {
		return nil
	}
	switch in.Role.Use {
	case Handed: // the Secret wakes us
		return &metav1.Condition{
			Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRoleInForce,
			Message: fmt.Sprintf("the claim has the login %s until the workspace has another", in.Role.Name),
		}
	case Running: // the Deployment wakes us
		since := in.Now
		if was := meta.FindStatusCondition(in.Claim.Status.Conditions, v1alpha1.ConditionRoleReady); was != nil && was.Reason == v1alpha1.ReasonRoleReplaced {
			since = was.LastTransitionTime.Time
		}
		left := ReplacedDeadline - in.Now.Sub(since)
		if left <= 0 {
			return nil
		}
		p.again(left)
		return &metav1.Condition{
			Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonRoleReplaced,
			Message: fmt.Sprintf("the workspace has another login; %s goes once no pod runs with it, at %s at the latest", in.Role.Name, stamp(since.Add(ReplacedDeadline))),
		}
	default:
		return nil
	}
}
