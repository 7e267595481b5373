// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
)

// Status is the whole new status.
func Status(in Input) v1alpha1.DatastoreStatus {
	ds := in.Datastore
	status := *ds.Status.DeepCopy()
	status.ObservedGeneration = ds.Generation
	status.ListedOwner = ptr.Deref(in.ListedOwner, status.ListedOwner)
	set := func(conditionType string, value metav1.ConditionStatus, f Finding) {
		status.Conditions = condition.Set(status.Conditions, metav1.Condition{
			Type: conditionType, Status: value, Reason: f.Reason, Message: f.Message, ObservedGeneration: ds.Generation,
		}, in.Now)
	}
	value, finding := in.assess()
	set(v1alpha1.ConditionValidated, value, finding)
	set(v1alpha1.ConditionReady, value, finding)
	if finding.Reason == v1alpha1.ReasonAuthenticationFailed {
		set(v1alpha1.ConditionDenied, metav1.ConditionTrue, finding)
	} else {
		set(v1alpha1.ConditionDenied, metav1.ConditionFalse, Finding{Reason: finding.Reason, Message: "the server does not refuse the credentials"})
	}
	if finding.Stalled {
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, finding)
	} else {
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionStalled)
	}
	claims, connections := in.claimed()
	status.Claims, status.ClaimedConnections = claims, int32(min(connections, math.MaxInt32))
	if size := in.storage(); size != nil {
		status.StorageGB = (*size + 1<<30 - 1) >> 30
	}
	if over := in.overcommitted(connections, status.StorageGB); over != "" {
		set(v1alpha1.ConditionOvercommitted, metav1.ConditionTrue, Finding{Reason: v1alpha1.ReasonOvercommitted, Message: over})
	} else {
		status.Conditions = condition.Remove(status.Conditions, v1alpha1.ConditionOvercommitted)
	}
	return status
}

// assess says how the datastore is.
func (in Input) assess() (metav1.ConditionStatus, Finding) {
	ref := in.Datastore.Spec.EndpointSecretRef
	offer := in.current()
	switch {
	case in.Datastore.DeletionTimestamp != nil:
		return metav1.ConditionFalse, Finding{Reason: v1alpha1.ReasonTerminating, Message: "the datastore is being deleted"}
	case in.Datastore.Annotations[v1alpha1.AnnotationUndecodable] != "":
		return metav1.ConditionFalse, Finding{v1alpha1.ReasonInvalidSpec, "the stored datastore cannot be read: " +
			in.Datastore.Annotations[v1alpha1.AnnotationUndecodable] + ". Correct the field", true}
	case in.Managed.Exists() && !in.owned():
		taken := reconcile.NameConflict("Secret", in.Managed.Live.Name)
		return metav1.ConditionFalse, Finding{taken.Reason, taken.Message, taken.Stalled}
	case in.Refusal != nil:
		return metav1.ConditionFalse, Finding{in.Refusal.Reason, in.Refusal.Message, in.Refusal.Stalled}
	case in.Source == nil:
		return metav1.ConditionFalse, Finding{
			Reason:  v1alpha1.ReasonSecretNotFound,
			Message: fmt.Sprintf("there is no Secret %q. Create it with the connection string under the key %q", ref.Name, ref.Key),
		}
	case in.inForce():
		return in.judge(in.check())
	case offer == nil:
		return in.before()
	case offer.Invalid != nil:
		return metav1.ConditionFalse, in.keeping(*offer.Invalid)
	case !Probed(in.Datastore.Spec.Driver):
		return metav1.ConditionTrue, notProbed
	case offer.Check == nil:
		return in.before()
	case offer.Check.OK:
		return in.judge(offer.Check)
	default:
		return metav1.ConditionFalse, in.keeping(offer.Check.Finding)
	}
}

var notProbed = Finding{Reason: v1alpha1.ReasonNotProbed, Message: "the connection string is well-formed; this driver has nothing to probe"}

// judge reads the check of the credentials in force. Without one, what was found before a restart holds.
func (in Input) judge(check *Check) (metav1.ConditionStatus, Finding) {
	switch {
	case !Probed(in.Datastore.Spec.Driver):
		return metav1.ConditionTrue, notProbed
	case check == nil:
		return in.before()
	case check.OK && check.Superuser && in.Datastore.Spec.Roles != v1alpha1.RolesPerClaim:
		return metav1.ConditionTrue, Finding{Reason: v1alpha1.ReasonSharedAdminCredentials, Message: "the endpoint works, and its user may do " +
			"everything on the server, which every claim then may. Use a lesser user, or set spec.roles to PerClaim"}
	default:
		return condition.Bool(check.OK), check.Finding
	}
}

// before is what the status said of this generation, else that nothing is known yet.
func (in Input) before() (metav1.ConditionStatus, Finding) {
	was := meta.FindStatusCondition(in.Datastore.Status.Conditions, v1alpha1.ConditionValidated)
	if was == nil || was.ObservedGeneration != in.Datastore.Generation || was.Reason == v1alpha1.ReasonSecretNotFound {
		return metav1.ConditionUnknown, Finding{Reason: v1alpha1.ReasonProbing, Message: "the endpoint is being probed"}
	}
	stalled := meta.IsStatusConditionTrue(in.Datastore.Status.Conditions, v1alpha1.ConditionStalled)
	return was.Status, Finding{was.Reason, was.Message, stalled}
}

// keeping adds that the credentials in force stay, because the new ones do not work.
func (in Input) keeping(f Finding) Finding {
	if in.Managed.Exists() {
		f.Message += "; the credentials that worked before stay in force"
	}
	return f
}

// check is the newest probe of the credentials in force: of the offer that they were, or a later one.
func (in Input) check() *Check {
	if in.Check != nil {
		return in.Check
	}
	if offer := in.current(); offer != nil {
		return offer.Check
	}
	return nil
}

func (in Input) validated() bool {
	was := meta.FindStatusCondition(in.Datastore.Status.Conditions, v1alpha1.ConditionValidated)
	return was != nil && was.Status == metav1.ConditionTrue && was.ObservedGeneration == in.Datastore.Generation
}

func (in Input) storage() *int64 {
	if check := in.check(); check != nil {
		return check.StorageBytes
	}
	return nil
}

// claimed counts the approved claims, and the connections that they were granted.
func (in Input) claimed() (claims int32, connections int64) {
	for _, claim := range in.Claims {
		claims++
		if claim.Spec.MaxConnections != nil {
			connections += int64(*claim.Spec.MaxConnections)
		}
	}
	return claims, connections
}

// overcommitted says what is claimed or used beyond the capacity. Nothing is evicted for it.
func (in Input) overcommitted(connections, storageGB int64) string {
	capacity := in.Datastore.Spec.Capacity
	switch {
	case capacity.MaxConnections > 0 && connections > int64(capacity.MaxConnections):
		return fmt.Sprintf("approved claims may open %d connections, and capacity.maxConnections is %d", connections, capacity.MaxConnections)
	case capacity.StorageGB > 0 && storageGB > int64(capacity.StorageGB):
		return fmt.Sprintf("the data take up %d GB, and capacity.storageGB is %d", storageGB, capacity.StorageGB)
	default:
		return ""
	}
}
