// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
)

// meter decides each slot a little after its end, once, and hands it over. Source: contract §5.3.
//
// Where the next leader goes on is noted once a slot was accepted. Between a slot's acceptance and the note, and while a slot is on its way,
// a leader can die: then its successor decides that slot again from its own samples, under the same keys, and the first that arrives
// counts. What this replica's own outbox holds is never decided again.
type meter struct {
	*Leader
	handed  chan time.Time  // the end of the last slot that was handed over; the newest is kept
	decided time.Time       // the same, for when run has ended
	held    map[string]bool // the keys that the outbox had at the start
}

// run meters until ctx ends.
func (m *meter) run(ctx context.Context) {
	m.decided = m.start()
	for {
		m.decided = m.decide(ctx, m.decided)
		next := metering.SlotAt(m.decided, m.interval).End.Add(m.grace())
		timer := m.clock.NewTimer(max(time.Second, next.Sub(m.clock.Now())))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// start is the end of the last slot that need not be decided, because it was accepted. A cluster that has never metered begins with the
// slot in which this process did. What the outbox holds of later slots is kept in mind, record by record: a process that was killed may
// have stored a part of a slot.
func (m *meter) start() time.Time {
	until := m.notes.get().MeteredUntil
	for _, record := range m.reporter.UnsentUsage() {
		slot, err := time.Parse(time.RFC3339, record.Slot)
		if err == nil && slot.Before(until) { // another leader's was accepted
			m.reporter.ForgetUsage(record.IdempotencyKey)
		} else {
			m.held[record.IdempotencyKey] = true
		}
	}
	if until.IsZero() {
		until = metering.SlotAt(m.sampler.started, m.interval).Start
	}
	return until
}

// decide hands over the slots that have ended since, and returns the end of the last one.
func (m *meter) decide(ctx context.Context, decided time.Time) time.Time {
	slots := metering.Ended(decided, m.clock.Now().Add(-m.grace()), m.interval, max(1, int(sampleReach/m.interval)-1))
	for _, slot := range slots {
		if slot.Start.Before(decided) { // of another length than the one before: rather unpaid than paid twice
			decided = slot.End
			continue
		}
		records, err := m.sampler.records(m.cluster, slot)
		if err != nil { // of a cache, which does not fail
			klog.FromContext(ctx).Error(err, "Metering failed", "slot", clustercontrol.SlotName(slot.Start))
			return decided
		}
		records = slices.DeleteFunc(records, func(r clustercontrol.UsageRecord) bool { return m.held[r.IdempotencyKey] })
		m.reporter.Metering(records)
		klog.FromContext(ctx).V(4).Info("Metered", "slot", clustercontrol.SlotName(slot.Start), "records", len(records))
		decided = slot.End
	}
	if len(slots) > 0 {
		_ = m.reporter.Flush() // the outbox's own loop tells of errors, and tries again
		m.sampler.keep(decided)
		select {
		case <-m.handed: // a newer one comes
		default:
		}
		m.handed <- decided
	}
	return decided
}

// note notes what was accepted, until ctx ends.
func (m *meter) note(ctx context.Context) {
	for {
		select {
		case until := <-m.handed:
			if m.reporter.Wait(ctx, clustercontrol.Metering) != nil {
				return
			}
			m.accepted(ctx, until)
		case <-ctx.Done():
			return
		}
	}
}

func (m *meter) accepted(ctx context.Context, until time.Time) {
	m.notes.note(ctx, func(n *Notes) {
		if until.After(n.MeteredUntil) {
			n.MeteredUntil = until
		}
	})
}

// leave notes what was accepted while reporting ended, so that the next leader decides nothing twice.
func (m *meter) leave(ctx context.Context) {
	if !m.decided.IsZero() && len(m.reporter.UnsentUsage()) == 0 {
		m.accepted(context.WithoutCancel(ctx), m.decided)
	}
}

// grace is how long after its end a slot is decided.
func (l *Leader) grace() time.Duration { return min(metering.Grace, l.interval) }
