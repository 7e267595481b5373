// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
)

// DropDeadline is how long a claim that is being deleted waits for its login to be dropped. It is no hostage of a server that is gone.
const DropDeadline = 60 * time.Second

// How soon a failed attempt is repeated: the first wait doubles each time. It is that of probes.
const (
	retryFirst = 5 * time.Second
	retryLast  = 5 * time.Minute
)

// conflictRetry is how soon a taken name is looked at again: a stranger's events name no claim.
const conflictRetry = 30 * time.Second

// again is when to go on after a write that wakes nobody.
const again = time.Millisecond

// Role is what is known of the claim's own login. It is all zero where there is none and none is wanted.
type Role struct {
	// Secret has the login's credentials.
	Secret Secret
	// Datastore is the one of Input.Place. Nil: there is none any more.
	Datastore *v1alpha1.Datastore
	// Admin is the revision of that Datastore's own credentials. Empty: it has none that work.
	Admin string
	// Name is the login's on the server, for people.
	Name string
	// Use says whether the workspace still needs the login.
	Use Use
	// Shared says that the workspace still has the datastore's own credentials, which it keeps until there is a login.
	Shared bool
	// Last is the last attempt to make or drop the login. Nil: there was none since the operator started.
	Last *Attempt
	// Revision is a fresh random word, for credentials that are new.
	Revision string
	// Refusal is why the last write failed. Nil: it did not.
	Refusal *reconcile.Refusal
}

// Attempt is what became of one attempt to make or drop a login.
type Attempt struct {
	// Drop says that it was to drop the login at the Place For; else it was to make the Login For.
	Drop bool
	For  string
	// Data are the parts of the endpoint with the login, as they go into the Secret. Never printed.
	Data map[string][]byte
	// Reason and Message say why it failed. Empty: it did not.
	Reason, Message string
	// At is when it ended.
	At time.Time
	// Failures counts the attempts in a row that failed.
	Failures int
}

// PerClaim says whether each claim for the Datastore gets a login of its own.
func PerClaim(ds *v1alpha1.Datastore) bool {
	return ds.Spec.Driver == v1alpha1.DriverPostgres && ds.Spec.Roles == v1alpha1.RolesPerClaim
}

// HasLogin says whether the claim may have a login of its own on the server.
func HasLogin(claim *v1alpha1.ResourceClaim) bool {
	return slices.Contains(claim.Finalizers, v1alpha1.RoleFinalizer)
}

// wantsLogin says whether the claim is to have a login of its own. A Datastore that goes takes the logins along.
func (in Input) wantsLogin(v Verdict) bool {
	return v.Approved && in.Claim.DeletionTimestamp == nil && in.Datastore != nil && in.Datastore.DeletionTimestamp == nil && PerClaim(in.Datastore)
}

// planRole adds what is to be done about the claim's own login, and returns the condition RoleReady. Nil: it has none.
func (in Input) planRole(v Verdict, p *Plan) *metav1.Condition {
	wanted, held := in.wantsLogin(v), HasLogin(in.Claim)
	if !wanted && !held {
		return nil
	}
	if !held {
		p.Finalizer = reconcile.FinalizerAdd // before anything is made that it is to be dropped for
	}
	if in.Role.Refusal != nil {
		return roleNotReady(in.Role.Refusal.Reason, in.Role.Refusal.Message)
	}
	if wanted && in.Place() == in.granted() {
		return in.makeLogin(p)
	}
	if kept := in.keepReplaced(v, p); kept != nil {
		return kept
	}
	return in.dropLogin(wanted, p)
}

// makeLogin makes the login that the claim says, and puts it in force. One that was in force stays until then.
func (in Input) makeLogin(p *Plan) *metav1.Condition {
	login, role := in.login(), in.Role
	switch last := role.Last; {
	case role.Secret.Exists() && !in.owned():
		p.again(conflictRetry)
		taken := reconcile.NameConflict("Secret", role.Secret.Live.Name)
		return roleNotReady(taken.Reason, taken.Message)
	case in.loginInForce() && in.origin() == login.String():
		if want := in.unchanged(); role.Secret.Differs(want) {
			p.Apply = append(p.Apply, role.Secret.Write(want))
		}
	case role.Admin == "": // the Datastore's Secret wakes us
		return in.rolePending(v1alpha1.ReasonNotValidated, fmt.Sprintf("the login is made once Datastore %q has credentials that work", in.Datastore.Name))
	case last == nil || last.Drop || last.For != login.String():
		p.Ensure, p.Fresh = &login, in.needsPassword(login)
		return in.rolePending(v1alpha1.ReasonRolePending, fmt.Sprintf("the login %s is being made", role.Name))
	case last.Reason != "":
		if p.due(in.Now, last) {
			p.Ensure, p.Fresh = &login, in.needsPassword(login)
		}
		return roleNotReady(last.Reason, in.keeping(fmt.Sprintf("the login %s cannot be made: %s", role.Name, last.Message)))
	default:
		p.Apply = append(p.Apply, role.Secret.Write(in.secret(login, last.Data)))
	}
	return &metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRoleInForce, Message: "the claim has the login " + role.Name}
}

// dropLogin drops the login that there may be, and then lets the claim go, or begins anew where it is wanted elsewhere.
func (in Input) dropLogin(wanted bool, p *Plan) *metav1.Condition {
	role, place := in.Role, in.Place().String()
	last := role.Last
	if last != nil && (!last.Drop || last.For != place) {
		last = nil
	}
	deadline, going := in.dropDeadline()
	abandoned := role.Datastore == nil || (role.Datastore.DeletionTimestamp != nil && role.Admin == "") // nobody can drop it any more
	switch {
	case last != nil && last.Reason == "":
		in.release(wanted, p)
	case (going && !in.Now.Before(deadline)) || ((going || wanted) && abandoned):
		p.Events = append(p.Events, reconcile.Event{
			Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonRoleLeftBehind, Action: "Release",
			Note: condition.Note(fmt.Sprintf("the login %s may still be on the server of Datastore %q. Drop it there: it could not be dropped in time%s",
				role.Name, in.Place().Datastore, because(last))),
		})
		in.release(wanted, p)
	case role.Admin == "": // the Datastore's Secret wakes us
		p.until(in.Now, deadline)
		return roleNotReady(v1alpha1.ReasonNotValidated, fmt.Sprintf("the login %s is dropped once Datastore %q has credentials that work", role.Name, in.Place().Datastore))
	case last == nil:
		p.Drop = new(in.Place())
	default:
		if p.due(in.Now, last) {
			p.Drop = new(in.Place())
		}
		p.until(in.Now, deadline)
		return roleNotReady(last.Reason, fmt.Sprintf("the login %s cannot be dropped: %s", role.Name, last.Message))
	}
	p.until(in.Now, deadline)
	if p.Finalizer == reconcile.FinalizerRemove {
		return nil
	}
	return roleNotReady(v1alpha1.ReasonRolePending, fmt.Sprintf("the login %s is being dropped", role.Name))
}

func because(last *Attempt) string {
	if last == nil {
		return ""
	}
	return ": " + last.Message
}

// dropDeadline is when a claim that is being deleted is let go in any case.
func (in Input) dropDeadline() (deadline time.Time, going bool) {
	if in.Claim.DeletionTimestamp == nil {
		return time.Time{}, false
	}
	return in.Claim.DeletionTimestamp.Add(DropDeadline), true
}

// release blanks the Secret, which nobody may delete but the garbage collector, and lets the claim go.
func (in Input) release(wanted bool, p *Plan) {
	if blank := in.blank(); in.Role.Secret.Exists() && in.owned() && in.Role.Secret.Differs(blank) {
		p.Apply = append(p.Apply, in.Role.Secret.Write(blank))
	}
	if wanted {
		p.again(again)
	} else {
		p.Finalizer = reconcile.FinalizerRemove
	}
}

// needsPassword says that the login gets a new password: it has none, or the claim asks for a rotation.
func (in Input) needsPassword(login Login) bool {
	return !in.loginInForce() || rotationOf(in.origin()) != login.rotation()
}

// keeping adds that the login in force stays, or the shared credentials that the workspace has.
func (in Input) keeping(message string) string {
	switch {
	case in.loginInForce():
		message += "; what worked before stays in force"
	case in.Role.Shared:
		message += "; until then the workspace keeps the datastore's own credentials"
	}
	return message
}

func roleNotReady(reason, message string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// rolePending is Unknown also while a login is in force: it is not what the claim asks for now.
func (in Input) rolePending(reason, message string) *metav1.Condition {
	return &metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: in.keeping(message)}
}

// due says whether a failed attempt is to be repeated now, or else when.
func (p *Plan) due(now time.Time, last *Attempt) bool {
	wait := retryFirst
	for range last.Failures - 1 {
		wait = min(wait*2, retryLast)
	}
	left := wait - now.Sub(last.At)
	p.again(left)
	return left <= 0
}

// again makes the plan look again after that long at the latest. Zero: no matter when.
func (p *Plan) again(after time.Duration) { p.After = reconcile.Sooner(p.After, after) }

// until looks again then, or earlier. Zero: never.
func (p *Plan) until(now, then time.Time) {
	if !then.IsZero() {
		p.again(then.Sub(now))
	}
}

// loginInForce says whether the Secret has a login that nobody has changed since.
func (in Input) loginInForce() bool {
	child := in.Role.Secret
	return child.Exists() && in.owned() && child.Live.Annotations[v1alpha1.AnnotationRevision] != "" &&
		reconcile.CredentialsIntact(child.Live, child.Ours.Data)
}
