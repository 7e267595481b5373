// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"
)

const (
	// lingerDelay is how long the first record of an idle endpoint waits for company, so that a burst is one envelope.
	lingerDelay = 500 * time.Millisecond
	// drainTimeout is how long Run goes on to send what waits after its context has ended.
	drainTimeout = 5 * time.Second
)

// SenderOptions of a Sender.
type SenderOptions struct {
	// Cluster is --cluster-name. Required.
	Cluster string
	// InstanceID names this process. Empty: a new UUID.
	InstanceID string
	// OutboxDir keeps what could not be sent over restarts, and belongs to this replica alone. Empty: what waits is lost with the process.
	OutboxDir string
	// OutboxMaxBytes bounds the files in OutboxDir, or the memory without one. 0: outbox.DefaultMaxBytes.
	OutboxMaxBytes int64
	// Trusted is called when a beat of node-health, of which there always is another soon, is accepted after one was refused with 401 or 403.
	// What was dropped meanwhile must be told anew. It must not block. Nil: nobody.
	Trusted func()
}

// Sender sends records to Cluster Control, in order per endpoint, each endpoint on its own. Handing a record over takes a moment, whatever
// the server does: it never waits for the network or the disk. It may be done at any time, also while Run does not run; then the records
// wait. Only the leader may call Run.
type Sender struct {
	cluster, instance string
	client            *Client
	metrics           *Metrics
	clock             clock.WithTicker
	logger            klog.Logger
	trusted           func()
	outbox            *outbox.Outbox
	lanes             map[Endpoint]*lane
	beats             beats

	mu       sync.Mutex
	settled  chan struct{}     // closed and replaced when an envelope is settled
	overflow map[Endpoint]bool // said already that records are dropped for want of room
}

// lane is the worker of one endpoint whose records are kept.
type lane struct {
	endpoint Endpoint
	wake     chan struct{} // something was handed over
	recover  chan struct{} // another endpoint answers again
	sequence int64         // of the last envelope that this process made
	failures int           // in a row
	refused  int           // the status that was logged last; 0 once an envelope was accepted
}

// NewSender returns a sender, with what an earlier process has left in OutboxDir. The error says what is wrong with the directory; who
// does not want to stop for that can try again without one.
func NewSender(ctx context.Context, client *Client, o SenderOptions) (*Sender, error) {
	if o.Cluster == "" {
		return nil, errors.New("reports to Cluster Control need the name of this cluster")
	}
	if o.InstanceID == "" {
		o.InstanceID = string(uuid.NewUUID())
	}
	s := &Sender{
		cluster: o.Cluster, instance: o.InstanceID, client: client, metrics: client.metrics, clock: client.clock, logger: klog.FromContext(ctx),
		lanes: map[Endpoint]*lane{}, settled: make(chan struct{}), overflow: map[Endpoint]bool{},
		trusted: o.Trusted,
	}
	for _, endpoint := range []Endpoint{Register, Metering, WorkspaceStatus} {
		l := &lane{endpoint: endpoint, wake: make(chan struct{}, 1), recover: make(chan struct{}, 1)}
		s.lanes[endpoint] = l
		client.state.onRecovery(endpoint, func() { signal(l.recover) })
	}
	s.beats.wake = make(chan struct{}, 1)
	box, err := outbox.Open(ctx, outbox.Options{
		Dir: o.OutboxDir, MaxBytes: o.OutboxMaxBytes, Clock: client.clock, Dropped: s.noRoom,
		// Samples are in memory as well. Statuses and registrations are bounded by what there is in the cluster; usage grows with time. So
		// it is the oldest usage that goes.
		Evict: []outbox.Lane{sampledReadings, sampledLives, outbox.Lane(Metering), outbox.Lane(WorkspaceStatus), outbox.Lane(Register)},
	})
	if err != nil {
		return nil, err
	}
	s.outbox = box
	for endpoint := range s.lanes {
		s.report(endpoint)
	}
	return s, nil
}

// Run sends until ctx ends, then for some seconds what still waits, and returns. What then is left stays in the outbox's directory.
func (s *Sender) Run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	defer stop()
	var writer, workers sync.WaitGroup
	writer.Go(func() { s.outbox.Run(writing) })
	for _, l := range s.lanes {
		workers.Go(func() { s.work(ctx, sending, l) })
	}
	workers.Go(func() { s.workBeats(ctx) })
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	<-ctx.Done()
	deadline := s.clock.NewTimer(drainTimeout)
	defer deadline.Stop()
	select {
	case <-done:
	case <-deadline.C():
		stop()
		<-done
	}
	stopWriting()
	writer.Wait()
}

// Close gives the outbox's directory free, after Run has returned.
func (s *Sender) Close() { s.outbox.Close() }

// work sends what is handed over for one endpoint. sending ends later than ctx.
func (s *Sender) work(ctx, sending context.Context, l *lane) {
	for {
		body, err := s.next(l)
		if err != nil { // what is in the outbox was encoded by this program: it cannot be, and must not be a busy loop
			s.logger.Error(err, "Making an envelope for Cluster Control failed", "endpoint", l.endpoint)
		}
		if body == nil {
			if ctx.Err() != nil {
				return
			}
			select {
			case <-l.wake:
				s.sleep(ctx, lingerDelay)
			case <-ctx.Done():
			}
			continue
		}
		_ = s.outbox.Flush() // a retry after a crash must find these bytes; the outbox's own loop tells of errors
		a := s.client.post(sending, l.endpoint, body)
		if sending.Err() != nil {
			return
		}
		if a.outcome.settled() {
			s.settle(l, a, body)
			continue
		}
		if a.unsent && s.outbox.Thaw(outbox.Lane(l.endpoint)) { // so that what is newer by the next attempt goes out instead
			l.sequence--
		}
		l.failures++
		if ctx.Err() == nil {
			s.pause(ctx, l, a)
		}
		if ctx.Err() != nil { // in an outage stopping is quick
			return
		}
	}
}

// next returns the bytes to send: those of the envelope that is not settled, or a new one.
func (s *Sender) next(l *lane) ([]byte, error) {
	return s.outbox.Freeze(outbox.Lane(l.endpoint), maxRecords, maxEnvelopeBytes, func(records [][]byte) ([]byte, error) {
		body, err := s.envelope(l.sequence+1, records)
		if err == nil {
			l.sequence++
		}
		return body, err
	})
}

// settle forgets an envelope that need not be sent again.
func (s *Sender) settle(l *lane, a answer, body []byte) {
	s.outbox.Settle(outbox.Lane(l.endpoint))
	l.failures = 0
	if a.outcome == refused {
		l.refused = s.drop(l.endpoint, l.refused, a, countRecords(body))
	} else {
		l.refused = 0
	}
	waiting := s.report(l.endpoint)
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting == 0 {
		delete(s.overflow, l.endpoint)
	}
	close(s.settled)
	s.settled = make(chan struct{})
}

// accepted is called when an endpoint accepts again what it had refused with a status. 0: it had not.
func (s *Sender) accepted(refused int) {
	if s.trusted != nil && (refused == http.StatusUnauthorized || refused == http.StatusForbidden) {
		s.logger.Info("Cluster Control accepts this operator's key; what it refused is told anew, but for usage")
		s.trusted()
	}
}

// drop counts records that were refused, and says so unless the last refusal that was logged had the same status. It returns the status,
// to be remembered as that.
func (s *Sender) drop(endpoint Endpoint, logged int, a answer, records int) (status int) {
	s.metrics.dropped(endpoint, dropRefused, records)
	if logged != a.status {
		s.logger.Error(nil, "Cluster Control refuses what it is sent; it is dropped. Further refusals are counted and not logged",
			"endpoint", endpoint, "status", a.status, "records", records, "answer", excerpt(a.body))
	}
	return a.status
}

// pause waits until the endpoint may be asked again. What the server asked for is kept to; else an answer at another endpoint after an
// outage is reason to try at once.
func (s *Sender) pause(ctx context.Context, l *lane, a answer) {
	select {
	case <-l.recover: // of before
	default:
	}
	if a.retryAfter > 0 {
		s.sleep(ctx, jitter(a.retryAfter))
		return
	}
	timer := s.clock.NewTimer(backoff(l.failures))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	case <-l.recover:
		s.sleep(ctx, jitter(lingerDelay))
	}
}

func (s *Sender) sleep(ctx context.Context, d time.Duration) {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// signal wakes whoever waits at a channel of one element.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// excerpt is what of an answer may be logged: klog quotes it.
func excerpt(body []byte) string {
	const most = 200
	if len(body) > most {
		return fmt.Sprintf("%s… (%d bytes or more)", body[:most], len(body))
	}
	return string(body)
}
