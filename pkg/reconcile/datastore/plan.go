// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// How often the credentials in force are probed again, and how soon a probe that failed is repeated: the first wait doubles each time.
const (
	checkEvery = 10 * time.Minute
	retryFirst = 5 * time.Second
	retryLast  = 5 * time.Minute
)

// conflictRetry is how soon a taken name is looked at again: a stranger's events name no Datastore.
const conflictRetry = 30 * time.Second

// Plan is what to do about one Datastore. An empty plan is the steady state.
type Plan struct {
	// Finalizer keeps the datastore, and its credentials with it, while claims have logins to be dropped with them.
	Finalizer reconcile.Finalizer
	// Read the endpoint Secret, because what it holds now was not read yet; then plan again.
	Read bool
	// Probe the offer (new credentials), or Recheck the credentials in force, in the background.
	Probe, Recheck bool
	// Apply is the managed Secret to write.
	Apply []reconcile.Write
	// Status is the whole new status.
	Status v1alpha1.DatastoreStatus
	// After is when to look again without any event. Zero: never.
	After time.Duration
}

// Origin says which state of which key the credentials come from. It changes with the Secret, the reference and the driver.
func (in Input) Origin() string {
	if in.Source == nil {
		return ""
	}
	spec := in.Datastore.Spec
	return fmt.Sprintf("%s/%s/%s/%s", in.Source.UID, in.Source.ResourceVersion, spec.EndpointSecretRef.Key, spec.Driver)
}

// inForce says whether the managed Secret holds what the endpoint Secret offers, and nobody has changed it since.
func (in Input) inForce() bool {
	return in.Managed.Exists() && in.owned() && in.Managed.Live.Annotations[v1alpha1.AnnotationOrigin] == in.Origin() &&
		reconcile.CredentialsIntact(in.Managed.Live, in.Managed.Ours.Data)
}

// current is the offer, if it is of the endpoint Secret as it is now.
func (in Input) current() *Offer {
	if in.Offer != nil && in.Offer.Origin == in.Origin() {
		return in.Offer
	}
	return nil
}

func (in Input) owned() bool {
	for _, ref := range in.Managed.Live.OwnerReferences {
		if ref.UID == in.Datastore.UID {
			return true
		}
	}
	return false
}

// Make decides what to do about a Datastore.
func Make(in Input) Plan {
	var p Plan
	if in.Datastore.DeletionTimestamp == nil && in.Source != nil && in.Refusal == nil {
		p = in.converge()
	}
	in.planFinalizer(&p)
	p.Status = Status(in)
	return p
}

// rolesDeadline is how long a datastore that is being deleted waits for its logins to be dropped: a moment longer than claims wait.
const rolesDeadline = 65 * time.Second

func (in Input) planFinalizer(p *Plan) {
	ds := in.Datastore
	held, wanted := slices.Contains(ds.Finalizers, v1alpha1.DatastoreRolesFinalizer), in.Logins
	if going := ds.DeletionTimestamp; going != nil && held && wanted {
		var over bool
		p.After, over = due(in.Now, going.Time, rolesDeadline)
		wanted = !over
	} else if going != nil && !held {
		return // nothing may be added any more
	}
	switch {
	case wanted && !held:
		p.Finalizer = reconcile.FinalizerAdd
	case held && !wanted:
		p.Finalizer = reconcile.FinalizerRemove
	}
}

// converge reads what is new, probes it, and puts it in force if it works. What was in force stays until then.
func (in Input) converge() Plan {
	var p Plan
	switch offer := in.current(); {
	case in.Managed.Exists() && !in.owned():
		p.After = conflictRetry
	case in.inForce():
		in.maintain(&p)
	case offer == nil:
		p.Read = true
	case offer.Invalid != nil: // its next state wakes us
	case offer.Check == nil && Probed(in.Datastore.Spec.Driver):
		p.Probe = true
	case offer.Check != nil && !offer.Check.OK:
		p.After, p.Probe = due(in.Now, offer.Check.At, retry(offer.Check.Failures))
	default:
		p.Apply = append(p.Apply, in.Managed.Write(in.secret(offer)))
	}
	return p
}

// maintain keeps the managed Secret as it was written, and probes it from time to time.
func (in Input) maintain(p *Plan) {
	if want := in.unchanged(); in.Managed.Differs(want) {
		p.Apply = append(p.Apply, in.Managed.Write(want))
	}
	if !Probed(in.Datastore.Spec.Driver) {
		return
	}
	switch check := in.check(); {
	case check == nil && in.validated(): // a restart probes nobody at once
		p.After, p.Recheck = due(in.Now, in.Since, checkEvery)
	case check == nil:
		p.Recheck = true
	case check.OK, check.Untried: // what cannot be read becomes no better soon
		p.After, p.Recheck = due(in.Now, check.At, checkEvery)
	default:
		p.After, p.Recheck = due(in.Now, check.At, retry(check.Failures))
	}
}

// due is how long is left of a wait, or that it is over.
func due(now, since time.Time, wait time.Duration) (after time.Duration, over bool) {
	if left := wait - now.Sub(since); left > 0 {
		return left, false
	}
	return 0, true
}

func retry(failures int) time.Duration {
	wait := retryFirst
	for range failures - 1 {
		if wait *= 2; wait >= retryLast {
			return retryLast
		}
	}
	return wait
}

// Probed says whether the driver has anything to probe.
func Probed(driver v1alpha1.Driver) bool {
	switch driver {
	case v1alpha1.DriverSQLite, v1alpha1.DriverMemory, v1alpha1.DriverFS:
		return false
	default:
		return true
	}
}

// secret is the managed Secret with the credentials of the offer. New credentials get a new revision, which rolls the pods that use them
// and tells nothing about them. What somebody has added that is no part of them makes no difference.
func (in Input) secret(offer *Offer) *corev1ac.SecretApplyConfiguration {
	revision := in.Revision
	if in.Managed.Exists() && reconcile.CredentialsIntact(in.Managed.Live, in.Managed.Ours.Data) &&
		maps.EqualFunc(in.Managed.Ours.Data, offer.Data, bytes.Equal) {
		revision = in.Managed.Live.Annotations[v1alpha1.AnnotationRevision]
	}
	return in.managed(offer.Origin, revision, offer.Data)
}

// unchanged is the managed Secret as it was written last.
func (in Input) unchanged() *corev1ac.SecretApplyConfiguration {
	live := in.Managed.Live
	return in.managed(live.Annotations[v1alpha1.AnnotationOrigin], live.Annotations[v1alpha1.AnnotationRevision], in.Managed.Ours.Data)
}

func (in Input) managed(origin, revision string, data map[string][]byte) *corev1ac.SecretApplyConfiguration {
	ds := in.Datastore
	return corev1ac.Secret(names.Datastore(ds.Name), ds.Namespace).
		WithLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelDatastore: names.Label(ds.Name)}).
		WithAnnotations(map[string]string{
			v1alpha1.AnnotationOrigin: origin, v1alpha1.AnnotationRevision: revision, v1alpha1.AnnotationParts: reconcile.CredentialParts(data),
		}).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.SchemeGroupVersion.String()).WithKind("Datastore").WithName(ds.Name).WithUID(ds.UID).
			WithController(true).WithBlockOwnerDeletion(true)).
		WithType(corev1.SecretTypeOpaque).
		WithData(data)
}
