// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	reconcile "github.com/formspec/formspec-operator/pkg/reconcile/datastore"
)

// offers remembers, for each Datastore, what was read from its endpoint Secret and not put in force yet, and the last probes.
type offers struct {
	mu   sync.Mutex
	byDS map[cache.ObjectName]*memo
}

type memo struct {
	since    time.Time // when this process first looked
	offer    *reconcile.Offer
	endpoint datastore.Endpoint // of the offer
	check    *reconcile.Check   // of the credentials in force
	probing  string             // what a probe is under way for; empty: nothing
}

func newOffers() *offers { return &offers{byDS: map[cache.ObjectName]*memo{}} }

// recall returns what is known of a Datastore, of which there is a memo from now on. The values are not shared with later changes.
func (o *offers) recall(key cache.ObjectName, now time.Time) memo {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.byDS[key]
	if m == nil {
		m = &memo{since: now}
		o.byDS[key] = m
	}
	return *m
}

// change does nothing for a Datastore that is gone.
func (o *offers) change(key cache.ObjectName, change func(*memo)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if m := o.byDS[key]; m != nil {
		change(m)
	}
}

func (o *offers) forget(key cache.ObjectName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byDS, key)
}

// read replaces the offer.
func (o *offers) read(key cache.ObjectName, offer *reconcile.Offer, endpoint datastore.Endpoint) {
	o.change(key, func(m *memo) { m.offer, m.endpoint, m.probing = offer, endpoint, "" })
}

// accepted drops the secret parts of the offer that was written, which is in force now; its probe stays as the last check. A probe that is
// under way is of what was in force before. Nothing changes if what was written came from elsewhere.
func (o *offers) accepted(key cache.ObjectName, origin string) {
	o.change(key, func(m *memo) {
		if m.offer != nil && m.offer.Origin == origin {
			m.check, m.offer, m.endpoint, m.probing = m.offer.Check, nil, datastore.Endpoint{}, ""
		}
	})
}

// begin says whether a probe of this is to be started, and remembers that it is under way.
func (o *offers) begin(key cache.ObjectName, what string) (start bool) {
	o.change(key, func(m *memo) {
		if start = m.probing != what; start {
			m.probing = what
		}
	})
	return start
}

// unreadable replaces the check of the credentials in force, which nobody can be asked about.
func (o *offers) unreadable(key cache.ObjectName, finding reconcile.Finding, at time.Time) {
	o.change(key, func(m *memo) { m.check = &reconcile.Check{Finding: finding, Untried: true, At: at} })
}

// inForce stands for the credentials in force where a probe is named.
const inForce = "in force"

// ended takes in the result of a probe of what, unless it is about something that has changed since.
func (o *offers) ended(key cache.ObjectName, what string, result datastore.Result, at time.Time) {
	o.change(key, func(m *memo) {
		if m.probing != what {
			return
		}
		m.probing = ""
		if what != inForce && (m.offer == nil || m.offer.Origin != what) {
			return
		}
		check := &reconcile.Check{
			Finding:      reconcile.Finding{Reason: result.Reason, Message: result.Message, Stalled: !result.Valid() && result.Reason != v1alpha1.ReasonUnreachable},
			OK:           result.Valid(),
			Superuser:    result.Superuser,
			At:           at,
			StorageBytes: result.SizeBytes,
		}
		last := m.check
		if what != inForce {
			last = m.offer.Check
		}
		if !check.OK {
			check.Failures = 1
			if last != nil {
				check.Failures += last.Failures
			}
		}
		if what == inForce {
			m.check = check
			return
		}
		offer := *m.offer // what was handed out before stays as it was
		offer.Check = check
		m.offer = &offer
	})
}
