// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"
)

// Reporter is what those who watch the cluster hand their records to. Every method returns at once and cannot fail: what cannot be kept
// is counted. Records must not change after they were handed over. *Sender implements it; a test has a list.
type Reporter interface {
	// Register proposes a registration, or takes it back. What waits for the same kind and id coalesces, but a deregistration always
	// arrives, and before a later registration of the same id.
	Register(Registration)
	// Health is one beat: all nodes, every 15 s. A beat that is not sent before the next is dropped.
	Health([]NodeReport)
	// Metering hands over usage of slots that have ended. It is kept until it is accepted; of two records with one key the first counts.
	Metering([]UsageRecord)
	// Status says how a Workspace is. Only the latest of each UID is kept.
	Status(StatusRecord)
}

var _ Reporter = (*Sender)(nil)

// Register implements Reporter.
func (s *Sender) Register(r Registration) {
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	if r.Capacity == nil {
		r.Capacity = map[string]int64{}
	}
	registered, gone := registrationKey(ActionRegister, r.Kind, r.ID), registrationKey(ActionDeregister, r.Kind, r.ID)
	data, ok := s.encode(Register, r)
	if !ok {
		return
	}
	if r.Action == ActionDeregister {
		s.outbox.Remove(outbox.Lane(Register), registered)
		s.outbox.Put(outbox.Lane(Register), gone, data, true)
	} else { // behind a deregistration that still waits, which has removed any earlier one
		s.outbox.Put(outbox.Lane(Register), registered, data, false)
	}
	s.handed(Register)
}

func registrationKey(action Action, kind Kind, id string) string {
	return string(action) + " " + string(kind) + " " + id
}

// Metering implements Reporter.
func (s *Sender) Metering(records []UsageRecord) {
	for _, r := range records {
		if data, ok := s.encode(Metering, r); ok {
			s.outbox.Add(outbox.Lane(Metering), r.IdempotencyKey, data)
		}
	}
	s.handed(Metering)
}

// Status implements Reporter.
func (s *Sender) Status(r StatusRecord) {
	if r.Conditions == nil {
		r.Conditions = []Condition{}
	}
	if data, ok := s.encode(WorkspaceStatus, r); ok {
		s.outbox.Put(outbox.Lane(WorkspaceStatus), string(r.UID), data, false)
	}
	s.handed(WorkspaceStatus)
}

// ID is the kind and id of a Registration.
type ID struct {
	Kind Kind
	ID   string
}

// UnsentRegistrations are the ids of registrations that wait. A new leader compares them with what there is: its outbox may be from an
// earlier term, and hold a registration of what has gone since; a deregistration handed over takes it back.
func (s *Sender) UnsentRegistrations() []ID {
	var ids []ID
	for _, key := range s.outbox.Keys(outbox.Lane(Register)) {
		if parts := strings.SplitN(key, " ", 3); len(parts) == 3 && parts[0] == string(ActionRegister) {
			ids = append(ids, ID{Kind(parts[1]), parts[2]})
		}
	}
	return ids
}

// UnsentStatuses are the statuses that wait. Those of Workspaces which have gone since must be replaced by ones that say so.
func (s *Sender) UnsentStatuses() []StatusRecord {
	entries, _ := s.outbox.Unsettled(outbox.Lane(WorkspaceStatus))
	return decode[StatusRecord](entries)
}

// UnsentUsage is the usage that waits, and that of an envelope which may have been sent. A new leader need not decide those slots again.
func (s *Sender) UnsentUsage() []UsageRecord {
	entries, envelopes := s.outbox.Unsettled(outbox.Lane(Metering))
	for _, e := range decode[Envelope](envelopes) {
		for _, record := range e.Records {
			entries = append(entries, record)
		}
	}
	return decode[UsageRecord](entries)
}

// ForgetUsage takes back the usage that waits under a key: another leader's was accepted in the meantime.
func (s *Sender) ForgetUsage(key string) {
	s.outbox.Remove(outbox.Lane(Metering), key)
	s.report(Metering)
}

// decode reads what was encoded here, or by another version: what that wrote otherwise is left out.
func decode[T any](encoded [][]byte) []T {
	var list []T
	for _, data := range encoded {
		var item T
		if json.Unmarshal(data, &item) == nil {
			list = append(list, item)
		}
	}
	return list
}

// Wait returns when everything that was handed over to Register, Metering or WorkspaceStatus before the call has been settled (accepted,
// refused, or replaced by something newer that was), or with ctx's error. Without Run it waits for ctx. It lets a finalizer wait for a
// deregistration, within a deadline: what is not delivered by then is still delivered later.
func (s *Sender) Wait(ctx context.Context, endpoint Endpoint) error {
	mark := s.outbox.Mark()
	for {
		s.mu.Lock()
		settled := s.settled
		s.mu.Unlock()
		if !s.outbox.Before(outbox.Lane(endpoint), mark) {
			return nil
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return fmt.Errorf("wait for Cluster Control to take what waits for %s: %w", endpoint, context.Cause(ctx))
		}
	}
}

// Flush writes what was handed over to the outbox's directory. Run does so within a tenth of a second; who wants to be sure that a
// record outlives a crash calls this, and waits for the disk.
func (s *Sender) Flush() error { return s.outbox.Flush() }

// encode returns the bytes of a record. False: it is too large, which is counted.
func (s *Sender) encode(endpoint Endpoint, record any) ([]byte, bool) {
	data, err := json.Marshal(record)
	if err != nil || len(data) > maxRecordBytes { // the types of this package can be encoded
		s.metrics.dropped(endpoint, dropTooLarge, 1)
		s.logger.V(2).Info("Dropped a record that is too large for Cluster Control", "endpoint", endpoint, "bytes", len(data))
		return nil, false
	}
	return data, true
}

// handed wakes the worker of the endpoint.
func (s *Sender) handed(endpoint Endpoint) {
	signal(s.lanes[endpoint].wake)
	s.report(endpoint)
}

// report sets the gauges of what waits, and returns the number of records that do.
func (s *Sender) report(endpoint Endpoint) int {
	entries, envelopes, bytes := s.outbox.Stats(outbox.Lane(endpoint))
	s.metrics.queued(endpoint, envelopes+(entries+maxRecords-1)/maxRecords, bytes)
	return entries
}

// noRoom counts what had to give way in the outbox, and says so once until everything that waited for the endpoint has been sent. Samples
// that had to are not lost: only a crash would lose them.
func (s *Sender) noRoom(name outbox.Lane, key string) {
	if name == sampledReadings || name == sampledLives {
		return
	}
	endpoint := Endpoint(name)
	s.metrics.dropped(endpoint, dropNoRoom, 1)
	s.mu.Lock()
	said := s.overflow[endpoint]
	s.overflow[endpoint] = true
	s.mu.Unlock()
	if !said {
		s.logger.Error(nil, "The outbox is full: the oldest records are dropped. Further ones are counted and not logged; a larger "+
			"--outbox-max-bytes holds more", "endpoint", endpoint, "first", key)
	}
}

// envelope returns the body that carries records.
func (s *Sender) envelope(sequence int64, records [][]byte) ([]byte, error) {
	e := Envelope{Cluster: s.cluster, InstanceID: s.instance, Sequence: sequence, SentAt: s.clock.Now()}
	for _, record := range records {
		e.Records = append(e.Records, record)
	}
	return e.encode()
}

func countRecords(body []byte) int {
	var e Envelope
	_ = json.Unmarshal(body, &e) // it was made here
	return len(e.Records)
}
