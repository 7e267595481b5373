// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// proof is why the grant is taken for the owner's own.
type proof struct {
	reason    string
	message   string
	unchecked bool // nobody looked at the signature
}

// authenticate finds out whether the Datastore's owner made the grant.
func (in Input) authenticate() (proof, *Verdict) {
	spec := in.Claim.Spec
	granted := fmt.Sprintf("workspace %q may use datastore %q, %s", spec.Workspace, spec.Datastore, spec.Permission)
	if spec.ExpiresAt != "" {
		granted += ", until " + spec.ExpiresAt
	}
	if in.Settings.InsecureSkipVerify {
		return proof{v1alpha1.ReasonClaimVerified, granted + "; the operator does not look at signatures (--insecure-skip-signature-verify)", true}, nil
	}
	owner, published := in.Datastore.Spec.Owner, in.OwnerKeys
	if owner == "" { // nothing can be published for nobody, whatever the state of the ConfigMap
		published = OwnerKeys{State: KeysNoEntry}
	}
	switch {
	case published.State == KeysPublished:
		return proof{reason: v1alpha1.ReasonClaimVerified, message: fmt.Sprintf("%s; signed with a published key of %q", granted, owner)},
			in.verifyPublished(published.Entry)
	case published.State == KeysNoEntry:
		return proof{reason: v1alpha1.ReasonClaimVerified, message: granted + "; signed with the key in the Datastore's spec.ownerPublicKey"},
			in.verifyDatastoreKey()
	case in.verifiedBefore():
		return proof{
			reason:  v1alpha1.ReasonOwnerKeysUnavailable,
			message: "the claim was verified and stays in force, but cannot be verified again: " + unavailable,
		}, nil
	default:
		return proof{}, waits(v1alpha1.ReasonOwnerKeysUnavailable, "the signature cannot be verified: %s", unavailable)
	}
}

const unavailable = "the ConfigMap " + v1alpha1.OwnerKeysConfigMap + " is absent from the operator's namespace, or the operator may not read it. " +
	"Restore it; if there never was one, create it (it may be empty when the keys are in the Datastores)"

// verifyPublished holds the signature against the entry of the ConfigMap. A bad line takes nothing from the good ones.
func (in Input) verifyPublished(entry string) *Verdict {
	owner := in.Datastore.Spec.Owner
	keys, bad := v1alpha1.ParseOwnerKeys(entry)
	err := v1alpha1.VerifyGrant(in.Claim, in.Settings.ClusterName, keys...)
	switch {
	case err == nil:
		return nil
	case bad != nil:
		return refuses(v1alpha1.ReasonInvalidOwnerKey, "%q has a bad key in the ConfigMap %s, and no good one that made the signature: %v. Correct the line there",
			owner, v1alpha1.OwnerKeysConfigMap, bad)
	case len(keys) == 0:
		return refuses(v1alpha1.ReasonMissingOwnerKey, "the entry of %q in the ConfigMap %s holds no key: all are revoked. Publish a key there", owner, v1alpha1.OwnerKeysConfigMap)
	default:
		return faulty(err)
	}
}

// verifyDatastoreKey holds the signature against the key that the Datastore itself states.
func (in Input) verifyDatastoreKey() *Verdict {
	ds := in.Datastore
	switch {
	case ds.Spec.OwnerPublicKey == "" && ds.Spec.Owner == "":
		return refuses(v1alpha1.ReasonMissingOwnerKey, "Datastore %q names no owner. Set spec.owner and publish the owner's key in the ConfigMap %s of the operator's namespace",
			ds.Name, v1alpha1.OwnerKeysConfigMap)
	case ds.Spec.OwnerPublicKey == "" && len(validation.IsConfigMapKey(ds.Spec.Owner)) > 0:
		return refuses(v1alpha1.ReasonMissingOwnerKey, "no key is known for %q, the owner of Datastore %q, and none can be published under that name. Use a name of letters, digits, '-', '_' and '.'",
			ds.Spec.Owner, ds.Name)
	case ds.Spec.OwnerPublicKey == "":
		return refuses(v1alpha1.ReasonMissingOwnerKey, "no key is known for %q, the owner of Datastore %q. Publish it in the ConfigMap %s of the operator's namespace",
			ds.Spec.Owner, ds.Name, v1alpha1.OwnerKeysConfigMap)
	case !in.Settings.TrustDatastoreKeys:
		return refuses(v1alpha1.ReasonMissingOwnerKey, "no key is published for %q, the owner of Datastore %q, and its spec.ownerPublicKey does not count here (--trust-datastore-keys=false). Publish the key in the ConfigMap %s of the operator's namespace",
			ds.Spec.Owner, ds.Name, v1alpha1.OwnerKeysConfigMap)
	}
	key, err := v1alpha1.ParsePublicKey(ds.Spec.OwnerPublicKey)
	if err != nil {
		return refuses(v1alpha1.ReasonInvalidOwnerKey, "spec.ownerPublicKey of Datastore %q %v. Correct it", ds.Name, err)
	}
	return faulty(v1alpha1.VerifyGrant(in.Claim, in.Settings.ClusterName, key))
}

// verifiedBefore says whether the status remembers that this generation was verified by the signature of the owner that the Datastore has
// now: a claim that names no grantor would stand for whoever becomes the owner. Only the operator writes a status.
func (in Input) verifiedBefore() bool {
	if in.Claim.Status.VerifiedOwner != in.Datastore.Spec.Owner {
		return false
	}
	ready := meta.FindStatusCondition(in.Claim.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != in.Claim.Generation {
		return false
	}
	if ready.Status == metav1.ConditionUnknown {
		return ready.Reason == v1alpha1.ReasonOwnerKeysUnavailable // it was verified when the outage began
	}
	denied := meta.FindStatusCondition(in.Claim.Status.Conditions, v1alpha1.ConditionDenied)
	unchecked := denied != nil && denied.Reason == v1alpha1.ReasonSignatureNotChecked
	return ready.Status == metav1.ConditionTrue && ready.Reason == v1alpha1.ReasonClaimVerified && !unchecked
}
