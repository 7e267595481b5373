// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datastore decides what to say about a Datastore, when to read and probe its endpoint, and which credentials are in force.
package datastore

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// Secret is the managed Secret: the credentials in force.
type Secret = reconcile.Child[*corev1.Secret, *corev1ac.SecretApplyConfiguration]

// Input is everything that a plan depends on.
type Input struct {
	// Now is the time of the decision.
	Now time.Time
	// Datastore is the object itself, never nil.
	Datastore *v1alpha1.Datastore
	// Since is when this process first looked at the Datastore.
	Since time.Time
	// Source is the endpoint Secret as its metadata tells. Nil: there is none.
	Source *Source
	// Offer is what was read from the endpoint Secret, and what became of it. Nil: nothing was read yet.
	Offer *Offer
	// Check is the last probe of the credentials in force. Nil: there was none since the operator started.
	Check *Check
	// Managed is the managed Secret.
	Managed Secret
	// Claims are the approved claims for the datastore.
	Claims []*v1alpha1.ResourceClaim
	// Logins says that a claim for the datastore has a login of its own there, or may have one.
	Logins bool
	// ListedOwner is the owner if formspec-owner-keys has an entry for him, else empty. Nil: it cannot be read, and what was known holds.
	ListedOwner *string
	// Revision is a fresh random word, for credentials that are new.
	Revision string
	// Refusal is why the last write failed. Nil: it did not.
	Refusal *reconcile.Refusal
}

// Source identifies one state of the endpoint Secret.
type Source struct {
	UID             types.UID
	ResourceVersion string
}

// Offer is one reading of the endpoint Secret: credentials that are not in force yet.
type Offer struct {
	// Origin says what was read (Input.Origin).
	Origin string
	// Invalid is why nothing can be made of it. Nil: Data can be probed.
	Invalid *Finding
	// Data are the parts of the connection string, as they go into the managed Secret. Never printed.
	Data map[string][]byte
	// Trimmed says that line ends were taken off the end of the connection string.
	Trimmed bool
	// Check is the probe of it. Nil: not probed yet.
	Check *Check
}

// Check is the result of one probe.
type Check struct {
	Finding
	// OK says that the credentials work.
	OK bool
	// Superuser says that the endpoint's user may do everything on the server.
	Superuser bool
	// Untried says that the connection string could not be read, so that nobody was asked.
	Untried bool
	// At is when it ended.
	At time.Time
	// Failures counts the probes in a row that failed.
	Failures int
	// StorageBytes is the size of the data. Nil: unknown.
	StorageBytes *int64
}

// Finding is a reason and a message for a condition. It never holds a part of a connection string but host and database.
type Finding struct {
	Reason  string
	Message string
	// Stalled: nothing changes before a user acts.
	Stalled bool
}
