// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"
)

// Capture is a request as it came, with what was known of it when it came.
type Capture struct {
	ID        uint64    `json:"id"` // its number in the log, shared with other entries
	Received  time.Time `json:"received"`
	Endpoint  Endpoint  `json:"endpoint"`
	KeyID     string    `json:"key_id"`
	Signature string    `json:"signature"`
	// Verified means that a trusted key signed Body. Otherwise the key was pinned on first use, or the request was refused.
	Verified bool `json:"verified"`
	// Bound is the cluster that the key is trusted for. Empty: any.
	Bound string `json:"bound,omitempty"`
	Body  []byte `json:"body"`
	// Refusal is set for a request that was refused before its body was looked at.
	Refusal *Refusal `json:"refusal,omitempty"`
	// Mode is how the server misbehaved; Verdict then tells what it did with the body, not what it answered.
	Mode    Mode    `json:"mode,omitempty"`
	Verdict Verdict `json:"verdict"`
}

// Refusal is what is wrong with a request but for its body.
type Refusal struct {
	Status int    `json:"status"`
	Kind   Kind   `json:"kind"`
	Detail string `json:"detail"`
}

// Verdict is what became of a request.
type Verdict struct {
	Status  int    `json:"status"` // 0: the body was not looked at, because the server misbehaved
	Message string `json:"message"`
}

// Kind is a way to break the contract.
type Kind string

// All of them.
const (
	BadRequest     Kind = "request"         // method, header or size
	BadSignature   Kind = "signature"       // absent, malformed, or of another body or key
	UnknownKey     Kind = "key"             // not trusted, or not for this cluster
	BadEnvelope    Kind = "envelope"        // not what §5 says an envelope is
	BadProtocol    Kind = "protocol"        // another one
	BadRecord      Kind = "record"          // not what §5.1 to §5.4 say a record is
	Credentials    Kind = "credentials"     // a URL with a password in it
	SequenceGap    Kind = "sequence-gap"    // something is missing, other than health
	SequenceOrder  Kind = "sequence-order"  // something comes after what was sent later
	SequenceReused Kind = "sequence-reused" // other bytes under a number that was used
	SlotReused     Kind = "slot-reused"     // another measurement under a key that was used
)

// Violation is one case of it.
type Violation struct {
	Time     time.Time `json:"time"`
	Capture  uint64    `json:"capture"`
	Endpoint Endpoint  `json:"endpoint"`
	Kind     Kind      `json:"kind"`
	Detail   string    `json:"detail"`
	Cluster  string    `json:"cluster,omitempty"`
	Instance string    `json:"instance_id,omitempty"`
	Sequence uint64    `json:"sequence,omitempty"`
}

// ledger is all that follows from the log. It reads no clock and does no I/O, so the same log gives the same ledger.
type ledger struct {
	decoder  decoder
	interval time.Duration // of metering slots

	verdicts      map[uint64]Verdict // by capture
	requests      map[Endpoint]int
	violations    []Violation
	pins          map[string]string // cluster → key id, where keys are trusted on first use
	verified      map[string]bool   // clusters that a trusted key has spoken for
	clusters      map[string]string // key id → the cluster that it spoke for last
	streams       map[streamKey]*stream
	registrations map[[3]string]Registration // cluster, kind, id
	nodes         map[[2]string]Node         // cluster, node
	workspaces    map[[3]string]Workspace    // cluster, namespace, name
	usage         map[string]measured        // by idempotency key
	restarts      []Restart                  // by cursor
	keys          map[string]TrustedKey      // by key id
}

func newLedger(interval time.Duration) *ledger {
	return &ledger{
		decoder: newDecoder(), interval: interval,
		verdicts: map[uint64]Verdict{}, requests: map[Endpoint]int{}, streams: map[streamKey]*stream{},
		pins: map[string]string{}, verified: map[string]bool{}, clusters: map[string]string{}, keys: map[string]TrustedKey{},
		registrations: map[[3]string]Registration{}, nodes: map[[2]string]Node{}, workspaces: map[[3]string]Workspace{},
		usage: map[string]measured{},
	}
}

// apply is the one way in which a ledger changes.
func (l *ledger) apply(id uint64, e entry) {
	switch {
	case e.Restart != nil:
		l.restarts = append(l.restarts, *e.Restart)
	case e.Key != nil:
		l.trust(*e.Key)
	case e.Capture != nil:
		c := *e.Capture
		c.ID = id
		l.requests[c.Endpoint]++
		l.verdicts[id] = l.judge(c)
	}
}

// judge takes a request in, or says why not.
func (l *ledger) judge(c Capture) Verdict {
	if c.Refusal != nil {
		return l.refuse(c, envelope{}, c.Refusal.Status, c.Refusal.Kind, errors.New(c.Refusal.Detail))
	}
	if !c.Mode.processes() {
		return Verdict{Message: "not looked at"}
	}
	e, head, records := l.decoder.decode(c.Endpoint, c.Body)
	if head != nil {
		return l.refuse(c, e, http.StatusBadRequest, BadEnvelope, head)
	}
	if e.Protocol != protocol {
		return l.refuse(c, e, http.StatusBadRequest, BadProtocol, fmt.Errorf("the protocol is %q, want %q", e.Protocol, protocol))
	}
	if err := l.checkSigner(c, e.Cluster); err != nil {
		return l.refuse(c, e, http.StatusUnauthorized, UnknownKey, err)
	}
	sent, again := l.sequence(c, e)
	if again != nil {
		return *again
	}
	sent.verdict = l.take(c, e, sent.late, records)
	return sent.verdict
}

// take takes in the records of an envelope that is new.
func (l *ledger) take(c Capture, e envelope, late bool, records error) Verdict {
	switch {
	case credentials.Match(c.Body): // before what may repeat a part of the body
		return l.refuse(c, e, http.StatusBadRequest, Credentials, errors.New("the body has a URL with a password in it"))
	case records != nil:
		return l.refuse(c, e, http.StatusBadRequest, BadRecord, records)
	}
	var err error
	switch c.Endpoint {
	case Register:
		err = l.takeRegistrations(c, e, late)
	case Health:
		err = l.takeHealth(c, e, late)
	case WorkspaceReport:
		err = l.takeWorkspaces(c, e, late)
	case Metering:
		return l.takeUsage(c, e)
	}
	if err != nil {
		return l.refuse(c, e, http.StatusBadRequest, BadRecord, err)
	}
	return Verdict{http.StatusOK, "accepted"}
}

// credentials finds user:password@ in a URL. What it finds is never repeated.
var credentials = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/\s"@]*:[^/\s"@]+@`)

func (l *ledger) refuse(c Capture, e envelope, status int, kind Kind, reason error) Verdict {
	l.violate(c, e, kind, reason.Error())
	return Verdict{status, reason.Error()}
}

func (l *ledger) violate(c Capture, e envelope, kind Kind, detail string) {
	l.violations = append(l.violations, Violation{
		Time: c.Received, Capture: c.ID, Endpoint: c.Endpoint, Kind: kind, Detail: detail,
		Cluster: e.Cluster, Instance: e.Instance, Sequence: e.Sequence,
	})
}

// A record that comes late says nothing about now, so it changes none of what follows.

func (l *ledger) takeRegistrations(c Capture, e envelope, late bool) error {
	records, err := decodeRecords(e, func(r *Registration) { r.Cluster, r.Received = e.Cluster, c.Received })
	if err != nil || late {
		return err
	}
	for _, r := range records {
		key := [3]string{r.Cluster, r.Kind, r.ID}
		if r.Action == "register" {
			l.registrations[key] = r
			continue
		}
		delete(l.registrations, key)
		if r.Kind == "node" {
			delete(l.nodes, [2]string{r.Cluster, r.ID})
		}
	}
	return nil
}

func (l *ledger) takeHealth(c Capture, e envelope, late bool) error {
	records, err := decodeRecords(e, func(n *Node) { n.Cluster, n.LastBeat = e.Cluster, c.Received })
	if err != nil || late {
		return err
	}
	for _, n := range records {
		l.nodes[[2]string{n.Cluster, n.Name}] = n
	}
	return nil
}

func (l *ledger) takeWorkspaces(c Capture, e envelope, late bool) error {
	records, err := decodeRecords(e, func(w *Workspace) {
		w.Cluster, w.Instance, w.SentAt, w.Received = e.Cluster, e.Instance, e.SentAt, c.Received
	})
	if err != nil {
		return err
	}
	for _, w := range records {
		l.consume(w)
		key := [3]string{w.Cluster, w.Namespace, w.Name}
		// What an earlier leader had not sent can come after what its successor says.
		before := l.workspaces[key]
		if !late && (before.Instance == w.Instance || !w.SentAt.Before(before.SentAt)) {
			l.workspaces[key] = w
		}
	}
	return nil
}
