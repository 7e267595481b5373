// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"fmt"
	"slices"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// alone judges the claim as if it had no rivals. The order tells the most telling reason first: what is wrong with the claim whatever else
// is true, who signed it, whether the owner still means it, and last what will come by itself.
func (in Input) alone() Verdict {
	if refused := firstOf(in.going, in.target, in.named, in.grantor, in.version, in.form); refused != nil {
		return *refused
	}
	proof, refused := in.authenticate()
	if refused != nil {
		return *refused
	}
	grantedAt, expiresAt, _ := v1alpha1.GrantValidity(in.Claim) // form has found no error
	v := Verdict{unchecked: proof.unchecked}
	for _, moment := range []time.Time{grantedAt.Add(-Leeway), expiresAt} {
		if moment.After(in.Now) {
			v.Next = sooner(v.Next, moment)
		}
	}
	refused = firstOf(
		func() *Verdict { return in.revoked(grantedAt) },
		func() *Verdict { return in.expired(expiresAt) },
		in.tenant,
		func() *Verdict { return in.early(grantedAt) },
		in.workspace,
	)
	if refused != nil {
		v.Reason, v.Message, v.Stalled = refused.Reason, refused.Message, refused.Stalled
		return v
	}
	v.Approved, v.Reason, v.Message = true, proof.reason, proof.message
	return v
}

// going refuses a claim that waits for its login to be dropped.
func (in Input) going() *Verdict {
	if in.Claim.DeletionTimestamp != nil {
		return waits(v1alpha1.ReasonTerminating, "the claim is being deleted")
	}
	return nil
}

// firstOf is the first refusal. Nil: there is none.
func firstOf(checks ...func() *Verdict) *Verdict {
	for _, check := range checks {
		if refused := check(); refused != nil {
			return refused
		}
	}
	return nil
}

// waits says no until something comes that is no fault of the claim.
func waits(reason, format string, args ...any) *Verdict {
	return &Verdict{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// refuses says no until a user acts.
func refuses(reason, format string, args ...any) *Verdict {
	return &Verdict{Reason: reason, Message: fmt.Sprintf(format, args...), Stalled: true}
}

// faulty says no for an error with a reason. Nil: there is no error.
func faulty(err error) *Verdict {
	if err == nil {
		return nil
	}
	return &Verdict{Reason: v1alpha1.GrantReason(err), Message: err.Error(), Stalled: true}
}

func (in Input) target() *Verdict {
	name := in.Claim.Spec.Datastore
	switch {
	case in.Claim.DeletionTimestamp != nil:
		return waits(v1alpha1.ReasonTerminating, "the claim is being deleted")
	case in.Datastore == nil:
		return waits(v1alpha1.ReasonDatastoreNotFound, "there is no Datastore %q in the namespace. Create it, or correct spec.datastore", name)
	case in.Datastore.DeletionTimestamp != nil:
		return waits(v1alpha1.ReasonDatastoreNotFound, "Datastore %q is being deleted", name)
	}
	return nil
}

// named refuses a datastore whose variables cannot be keys of the workspace's credentials Secret. It would take all others with it.
func (in Input) named() *Verdict {
	if length := len(in.Claim.Spec.Datastore); length > names.LongestDatastore {
		return refuses(v1alpha1.ReasonNameTooLong,
			"the name of the Datastore has %d characters and names of variables are made from it, which leaves it %d. Register it under a shorter name, and sign for that",
			length, names.LongestDatastore)
	}
	return nil
}

func (in Input) grantor() *Verdict {
	by, owner := in.Claim.Spec.GrantedBy, in.Datastore.Spec.Owner
	if by == "" || owner == "" || by == owner {
		return nil
	}
	return refuses(v1alpha1.ReasonGrantorNotOwner, "spec.grantedBy is %q and the owner of Datastore %q is %q. Only the owner grants access: correct spec.grantedBy and have the owner sign",
		by, in.Datastore.Name, owner)
}

func (in Input) version() *Verdict {
	if v := v1alpha1.EffectiveGrantVersion(in.Claim); v < in.Settings.MinGrantVersion {
		return refuses(v1alpha1.ReasonGrantVersionRefused, "the grant is version %d and this operator accepts version %d and later (--min-grant-version). Sign the claim as version %d",
			v, in.Settings.MinGrantVersion, in.Settings.MinGrantVersion)
	}
	return nil
}

// form checks what can be said without any key.
func (in Input) form() *Verdict {
	if !in.Settings.InsecureSkipVerify {
		if _, err := v1alpha1.ParseGrantSignature(in.Claim.Spec.Signature); err != nil {
			return faulty(err)
		}
	}
	if _, err := v1alpha1.GrantMessage(in.Claim, in.Settings.ClusterName); err != nil {
		return faulty(err)
	}
	return faulty(v1alpha1.ValidateGrant(in.Claim))
}

func (in Input) revoked(grantedAt time.Time) *Verdict {
	limit := in.Datastore.Spec.GrantsNotBefore
	if limit == nil || !grantedAt.Before(limit.Time) {
		return nil
	}
	return refuses(v1alpha1.ReasonGrantRevoked, "the grant is of %s and Datastore %q revokes what was granted before %s (spec.grantsNotBefore). Have the owner sign again",
		stamp(grantedAt), in.Datastore.Name, stamp(limit.Time))
}

func (in Input) expired(expiresAt time.Time) *Verdict {
	if in.Claim.Spec.ExpiresAt == "" || in.Now.Before(expiresAt) {
		return nil
	}
	return refuses(v1alpha1.ReasonExpired, "the grant expired at %s. Have the owner sign a new one", stamp(expiresAt))
}

// early refuses a grant of the future. It is valid a little before its time, because clocks differ.
func (in Input) early(grantedAt time.Time) *Verdict {
	if !in.Now.Before(grantedAt.Add(-Leeway)) {
		return nil
	}
	return waits(v1alpha1.ReasonNotYetValid, "the grant is not yet valid until %s (spec.grantedAt; %.0f s earlier are allowed, because clocks differ)",
		stamp(grantedAt), Leeway.Seconds())
}

func (in Input) tenant() *Verdict {
	allowed, tenant := in.Datastore.Spec.AllowedTenants, "workspace:"+in.Claim.Spec.Workspace
	if slices.Contains(allowed, "*") || slices.Contains(allowed, tenant) {
		return nil
	}
	return refuses(v1alpha1.ReasonTenantNotAllowed, "spec.allowedTenants of Datastore %q does not have %q. Add it there if the workspace may use the datastore", in.Datastore.Name, tenant)
}

func (in Input) workspace() *Verdict {
	if in.WorkspaceExists {
		return nil
	}
	return waits(v1alpha1.ReasonWorkspaceNotFound, "the grant is valid and waits for Workspace %q, which is not in the namespace. Create it, or correct spec.workspace and sign again",
		in.Claim.Spec.Workspace)
}

// stamp is a time as people and the fields write it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
