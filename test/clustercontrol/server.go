// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Options are what a Server is made of. The zero value is good for a test that calls Trust.
type Options struct {
	// Path of the log. It is created if it is not there. Empty: a temporary file.
	Path string
	// Keys that are trusted. Others can be added later.
	Keys []TrustedKey
	// TrustFirstUse accepts requests that an unknown key has signed, if no other key has spoken for the cluster. Their
	// signatures cannot be verified, since the public key is not on the wire. For development only.
	TrustFirstUse bool
	// MeteringInterval is what slots must be multiples of. 0: 5 min.
	MeteringInterval time.Duration
	// BeatInterval is how often nodes report. After three that were missed a node is dead. 0: 15 s.
	BeatInterval time.Duration
	// Clock says when requests come, and whether nodes are dead. Nil: the real one.
	Clock clock.PassiveClock
	// Logger is told of violations. The zero value discards.
	Logger klog.Logger
}

// missedBeats make a node dead.
const missedBeats = 3

// Server is a Cluster Control. It has no listener: Wire and Admin are served by whoever made it.
type Server struct {
	options Options
	journal *journal
	modes   misbehaviours

	mu      sync.Mutex // an entry is written and applied as one
	ledger  *ledger
	polls   map[string]Poll // by cluster
	changed chan struct{}   // closed when something changes, and replaced
	closed  bool
}

// Poll is the last request for deploy-status of a cluster. It is not in the log.
type Poll struct {
	Time  time.Time `json:"time"`
	After int64     `json:"after"`
	Count int       `json:"count"` // since the server started
}

// New opens the log and reads what there is.
func New(options Options) (*Server, error) {
	if options.MeteringInterval == 0 {
		options.MeteringInterval = 5 * time.Minute
	}
	if options.BeatInterval == 0 {
		options.BeatInterval = 15 * time.Second
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	j, err := openJournal(options.Path)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: options, journal: j, ledger: newLedger(options.MeteringInterval),
		polls: map[string]Poll{}, changed: make(chan struct{}),
	}
	for _, key := range options.Keys {
		s.ledger.trust(key)
	}
	err = j.replay(func(id uint64, e entry) error {
		s.ledger.apply(id, e)
		return nil
	})
	if err != nil {
		_ = j.close()
		return nil, fmt.Errorf("read the log: %w", err)
	}
	if options.TrustFirstUse {
		options.Logger.Info("WARNING: the first key that speaks for a cluster is trusted, and its signatures are not verified")
	}
	return s, nil
}

// Close lets go of requests that hang, and of the log. Requests that come after it fail.
func (s *Server) Close() error {
	for _, endpoint := range Endpoints() {
		s.modes.set(endpoint, Misbehaviour{})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.journal.close()
}

// Trust accepts a key from now on, also after a restart. A key that is trusted already may then speak for the cluster given now.
func (s *Server) Trust(key TrustedKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.add(entry{Key: &key})
	return err
}

// RequestRestart makes deploy-status tell that the pods of a Workspace must be restarted. It returns the request with its cursor.
func (s *Server) RequestRestart(restart Restart) (Restart, error) {
	if err := restart.validate(); err != nil {
		return Restart{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	restart.Cursor, restart.Consumed = int64(len(s.ledger.restarts))+1, false
	_, err := s.add(entry{Restart: &restart})
	return restart, err
}

// Misbehave changes what an endpoint does to requests from now on, and lets go of those that hang. It is forgotten at a restart.
func (s *Server) Misbehave(endpoint Endpoint, misbehaviour Misbehaviour) error {
	if err := misbehaviour.validate(endpoint); err != nil {
		return err
	}
	s.modes.set(endpoint, misbehaviour)
	return nil
}

// add writes an entry and applies it. The lock is held.
func (s *Server) add(e entry) (uint64, error) {
	if s.closed {
		return 0, errors.New("the server is closed")
	}
	id, err := s.journal.append(e)
	if err != nil {
		return 0, err
	}
	before := len(s.ledger.violations)
	s.ledger.apply(id, e)
	for _, v := range s.ledger.violations[before:] {
		s.options.Logger.Info("The contract was broken", "kind", v.Kind, "endpoint", v.Endpoint, "detail", v.Detail,
			"cluster", v.Cluster, "instance", v.Instance, "sequence", v.Sequence, "capture", v.Capture)
	}
	s.announce()
	return id, nil
}

func (s *Server) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Captures returns every request to an endpoint that is posted to, as it came, and every other one that was refused,
// oldest first.
func (s *Server) Captures() ([]Capture, error) {
	s.mu.Lock()
	closed, verdicts := s.closed, maps.Clone(s.ledger.verdicts)
	s.mu.Unlock()
	if closed {
		return nil, errors.New("the server is closed")
	}
	var captures []Capture
	err := s.journal.replay(func(id uint64, e entry) error {
		if verdict, known := verdicts[id]; known {
			e.Capture.ID, e.Capture.Verdict = id, verdict
			captures = append(captures, *e.Capture)
		}
		return nil
	})
	return captures, err
}

// Wait returns when the state is as wanted, or with the context's error. The condition is asked again after each request.
func (s *Server) Wait(ctx context.Context, condition func(State) bool) error {
	for {
		s.mu.Lock()
		state, changed := s.state(), s.changed
		s.mu.Unlock()
		if condition(state) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
