// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourceclaim decides whether a workspace gets what a ResourceClaim grants it.
//
// There is one decision, Judge. The status of the claim shows it, and the plan of the Workspace takes it again from the same caches, so that
// what is injected never depends on a status that is not up to date.
package resourceclaim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Leeway is how far the owner's clock may be ahead of this one: a grant is valid that much before its grantedAt. An end has none.
const Leeway = 60 * time.Second

// Input is everything that a verdict depends on.
type Input struct {
	// Now is the time of the decision.
	Now time.Time
	// Settings are the operator's own.
	Settings Settings
	// Claim is the object itself, never nil.
	Claim *v1alpha1.ResourceClaim
	// Datastore is the one that the claim names, in its namespace. Nil: there is none.
	Datastore *v1alpha1.Datastore
	// WorkspaceExists says that the Workspace which the claim names is in its namespace.
	WorkspaceExists bool
	// OwnerKeys are the published keys of the Datastore's owner, from LookUp.
	OwnerKeys OwnerKeys
	// Rivals are the other claims of the namespace. Those for another workspace or datastore, and the claim itself, are passed over.
	Rivals []*v1alpha1.ResourceClaim
	// Role is what is known of the claim's own login. No verdict depends on it.
	Role Role
}

// Settings are the flags of the operator that decide on claims.
type Settings struct {
	// ClusterName is what version 2 grants are bound to. Empty: they are refused.
	ClusterName string
	// MinGrantVersion refuses grants of an earlier version.
	MinGrantVersion int32
	// TrustDatastoreKeys accepts Datastore.spec.ownerPublicKey for an owner without published keys.
	TrustDatastoreKeys bool
	// InsecureSkipVerify approves claims without a look at their signature. Everything else is still checked.
	InsecureSkipVerify bool
}

// KeysState says what is known of an owner's published keys.
type KeysState int

const (
	// KeysUnavailable means that the ConfigMap is absent or cannot be read, which is an outage, not a revocation. It is the zero value.
	KeysUnavailable KeysState = iota
	// KeysNoEntry means that the ConfigMap has nothing for the owner.
	KeysNoEntry
	// KeysPublished means that the ConfigMap has an entry for the owner, which may be empty.
	KeysPublished
)

// OwnerKeys are the published keys of one owner.
type OwnerKeys struct {
	// State says whether Entry is there.
	State KeysState
	// Entry is the owner's keys as they are published, one a line.
	Entry string
}

// LookUp finds the keys of an owner in the ConfigMap formspec-owner-keys. Nil: it is absent or cannot be read.
func LookUp(published *corev1.ConfigMap, owner string) OwnerKeys {
	if published == nil {
		return OwnerKeys{State: KeysUnavailable}
	}
	if entry, ok := published.Data[owner]; ok {
		return OwnerKeys{State: KeysPublished, Entry: entry}
	}
	// What is not text is no key, but it is an entry: it must not make way for a weaker key.
	if entry, ok := published.BinaryData[owner]; ok {
		return OwnerKeys{State: KeysPublished, Entry: string(entry)}
	}
	return OwnerKeys{State: KeysNoEntry}
}
