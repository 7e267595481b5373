// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"context"
	"sync"
	"time"
)

// BeatInterval is how often Health should be called. A beat that is older is not sent any more. Source: contract §5.2.
const BeatInterval = 15 * time.Second

// beats holds the one beat of node-health that may wait.
type beats struct {
	wake chan struct{}

	mu      sync.Mutex
	records [][]byte // nil: none waits
	handed  time.Time
}

// Health implements Reporter.
func (s *Sender) Health(reports []NodeReport) {
	records := make([][]byte, 0, len(reports))
	for _, r := range reports {
		if r.Reasons == nil {
			r.Reasons = []string{}
		}
		if r.Labels == nil {
			r.Labels = map[string]string{}
		}
		if data, ok := s.encode(NodeHealth, r); ok {
			records = append(records, data)
		}
	}
	b := &s.beats
	b.mu.Lock()
	late := len(b.records)
	b.records, b.handed = records, s.clock.Now()
	b.mu.Unlock()
	s.metrics.dropped(NodeHealth, dropLate, late)
	signal(b.wake)
}

func (b *beats) take() (records [][]byte, handed time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	records, b.records = b.records, nil
	return records, b.handed
}

// workBeats sends each beat once: what a node was like 15 s ago is of no use to anybody.
func (s *Sender) workBeats(ctx context.Context) {
	var sequence int64
	var refusedStatus int
	var notBefore time.Time
	for {
		select {
		case <-s.beats.wake:
		case <-ctx.Done():
			return
		}
		records, handed := s.beats.take()
		if s.clock.Now().Before(notBefore) {
			s.metrics.dropped(NodeHealth, dropLate, len(records))
			continue
		}
		beat, cancel := context.WithTimeout(ctx, BeatInterval-s.clock.Since(handed))
		sent := 0
		for sent < len(records) {
			chunk := cut(records[sent:])
			sequence++
			body, err := s.envelope(sequence, chunk)
			if err != nil { // the records were encoded by this program
				s.logger.Error(err, "Making an envelope for Cluster Control failed", "endpoint", NodeHealth)
				break
			}
			a := s.client.post(beat, NodeHealth, body)
			if beat.Err() != nil { // the end of the beat says as much of the server as that of a request
				s.client.observe(ctx, NodeHealth, a)
			}
			if beat.Err() != nil || !a.outcome.settled() {
				if a.retryAfter > 0 {
					notBefore = s.clock.Now().Add(jitter(a.retryAfter))
				}
				break
			}
			sent += len(chunk)
			if a.outcome != refused {
				s.accepted(refusedStatus)
				refusedStatus = 0
				continue
			}
			refusedStatus = s.drop(NodeHealth, refusedStatus, a, len(chunk))
		}
		cancel()
		s.metrics.dropped(NodeHealth, dropLate, len(records)-sent)
	}
}

// cut returns as many records as one envelope holds, and at least one.
func cut(records [][]byte) [][]byte {
	bytes := 0
	for i, r := range records {
		if bytes += len(r); i > 0 && (bytes > maxEnvelopeBytes || i == maxRecords) {
			return records[:i]
		}
	}
	return records
}
