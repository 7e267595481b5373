// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"crypto/sha256"
	"fmt"
	"net/http"
)

// streamKey is what sequence numbers are counted by: from 1 per instance and endpoint (§5). The cluster is in it, since
// nothing keeps two of them from the same instance id.
type streamKey struct {
	cluster, instance string
	endpoint          Endpoint
}

type stream struct {
	last uint64 // the highest number so far
	sent map[uint64]*sending
}

// sending is an envelope that was taken in or refused under its number.
type sending struct {
	capture uint64
	hash    [sha256.Size]byte
	verdict Verdict
	late    bool // a higher number came before
}

// sequence files an envelope under its number. If it was there before, the answer is in again: 409 for bytes that were accepted.
//
// A gap is told and not punished: refusing what comes after it would lose more.
func (l *ledger) sequence(c Capture, e envelope) (sent *sending, again *Verdict) {
	key := streamKey{e.Cluster, e.Instance, c.Endpoint}
	s := l.streams[key]
	if s == nil {
		s = &stream{sent: map[uint64]*sending{}}
		l.streams[key] = s
	}
	hash := sha256.Sum256(c.Body)
	if before := s.sent[e.Sequence]; before != nil {
		return nil, new(l.repeated(c, e, before, hash))
	}
	sent = &sending{capture: c.ID, hash: hash, late: e.Sequence < s.last}
	s.sent[e.Sequence] = sent
	switch {
	case sent.late:
		l.violate(c, e, SequenceOrder, fmt.Sprintf("%d comes after %d", e.Sequence, s.last))
	case e.Sequence > s.last+1 && c.Endpoint != Health:
		l.violate(c, e, SequenceGap, fmt.Sprintf("%d comes after %d", e.Sequence, s.last))
	}
	s.last = max(s.last, e.Sequence)
	return sent, nil
}

func (l *ledger) repeated(c Capture, e envelope, before *sending, hash [sha256.Size]byte) Verdict {
	switch {
	case before.hash != hash:
		return l.refuse(c, e, http.StatusBadRequest, SequenceReused,
			fmt.Errorf("%d was used before, by capture %d, for other bytes", e.Sequence, before.capture))
	case before.verdict.Status >= http.StatusBadRequest:
		return before.verdict // and no new violation
	}
	return Verdict{http.StatusConflict, "already accepted"}
}
