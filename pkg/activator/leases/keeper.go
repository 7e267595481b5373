// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// Workspace is whose Lease it is, and how long it may be without traffic.
type Workspace struct {
	Namespace, Name string
	UID             types.UID
	Window          time.Duration // positive
}

const (
	renewalsPerWindow = 4                // at least this many, while there is traffic
	jitter            = 0.25             // of the time between two renewals, so that replicas do not renew at the same moment
	wakeGap           = time.Second      // between two wakes of one Workspace
	settle            = time.Second / 10 // before the first renewal: if the request finds nobody awake, the wake is renewal enough
	concurrentWrites  = 16               // to the API server
	reservedForWakes  = 4                // of these
	writeTimeout      = 10 * time.Second // of one write
	firstRetry        = time.Second      // after a write that failed, doubling
	lastRetry         = 30 * time.Second
	lastWakeRetry     = 2 * time.Second // somebody waits
)

// Config is what a Keeper is built from.
type Config struct {
	// Write renews the Lease of a Workspace, or makes it.
	Write func(ctx context.Context, ws Workspace) error
	// WritesPerSecond is the budget of renewals. Wakes do not wait for it.
	WritesPerSecond int
	// Wrote is called after each write, by what it was for. Nil: not.
	Wrote func(wake bool, err error)
}

// Keeper keeps the Leases of all Workspaces that have traffic in this process. It never blocks those who have the traffic.
type Keeper struct {
	config  Config
	limiter *rate.Limiter
	kick    chan struct{} // something is due earlier than Run knows

	mu      sync.Mutex
	entries map[types.UID]*entry
	wakes   queue // by when they may be sent
	later   queue // renewals, by when they are due
	due     queue // renewals that are due, the most urgent first
	writing int
	failing bool // the last write failed: logged once
}

// entry is one Workspace.
type entry struct {
	Workspace
	inFlight int
	activeAt time.Time // the last begin or end of a request
	seenAt   time.Time // when its Lease was last seen to change, by anyone; zero: never
	bornAt   time.Time // when this process first heard of the Workspace
	spread   float64   // 0 to 1: the jitter until the next renewal
	wake     bool      // a wake is wanted
	writing  bool
	failures int
	wroteAt  time.Time // the last write of ours, whatever came of it
	notUntil time.Time // after a failure

	queue *queue // nil: nothing to do
	index int
	at    time.Time // its place in the queue
}

// NewKeeper returns a Keeper, which writes while Run runs.
func NewKeeper(config Config) *Keeper {
	k := &Keeper{
		config:  config,
		limiter: rate.NewLimiter(rate.Limit(config.WritesPerSecond), 1),
		kick:    make(chan struct{}, 1),
		entries: map[types.UID]*entry{},
	}
	return k
}

// Begin says that a request for the Workspace has come.
func (k *Keeper) Begin(ws Workspace) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entry(ws.UID)
	e.Workspace = ws
	e.inFlight++
	k.active(e)
}

// End says that a request has ended, whose Begin was called.
func (k *Keeper) End(ws Workspace) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[ws.UID]; e != nil && e.inFlight > 0 { // else it was forgotten meanwhile
		e.inFlight--
		k.active(e)
	}
}

func (k *Keeper) active(e *entry) {
	e.activeAt = time.Now()
	if e.queue == nil {
		k.schedule(e)
	}
}

// Wake asks for a wake, at once. It may be called for each request: there is at most one write a second for a Workspace.
func (k *Keeper) Wake(ws Workspace) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entry(ws.UID)
	e.Workspace = ws
	e.wake = true
	k.schedule(e)
}

// Seen says that the Lease of a Workspace was seen to change at that time.
func (k *Keeper) Seen(uid types.UID, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen(k.entry(uid), at)
}

func (k *Keeper) seen(e *entry, at time.Time) {
	if at.After(e.seenAt) {
		e.seenAt, e.spread = at, chance()
		k.schedule(e)
	}
}

// Slept says that the Workspace was put to sleep. Of requests that had ended before, nobody needs to be told any more: to the operator that
// would be a wake.
func (k *Keeper) Slept(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[uid]; e != nil && e.inFlight == 0 && !e.wake {
		e.activeAt = time.Time{}
		k.schedule(e)
	}
}

// Lost says that the Lease of a Workspace was deleted. If there is traffic it is made again.
func (k *Keeper) Lost(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[uid]
	switch {
	case e == nil:
	case e.inFlight > 0 || e.wake || e.writing:
		e.seenAt, e.bornAt = time.Time{}, time.Now()
		k.schedule(e)
	default:
		e.leave()
		delete(k.entries, uid)
	}
}

// Forget drops a Workspace that was deleted.
func (k *Keeper) Forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[uid]; e != nil {
		e.leave()
		delete(k.entries, uid)
	}
}

func (k *Keeper) entry(uid types.UID) *entry {
	e := k.entries[uid]
	if e == nil {
		e = &entry{spread: chance(), bornAt: time.Now()}
		k.entries[uid] = e
	}
	return e
}

// schedule puts an entry where it belongs. An entry that is being written gets its place afterwards.
func (k *Keeper) schedule(e *entry) {
	e.leave()
	switch {
	case e.writing:
		return
	case e.wake:
		at := latest(e.wroteAt.Add(wakeGap), e.notUntil)
		if soon := e.wroteAt.Add(lastWakeRetry); at.After(soon) {
			at = soon // a renewal that failed has more time than a wake
		}
		e.join(&k.wakes, at)
	case e.inFlight > 0 || e.activeAt.After(e.seenAt):
		quarter := e.Window / renewalsPerWindow
		due := e.seenAt.Add(quarter + time.Duration(jitter*e.spread*float64(quarter)))
		e.join(&k.later, latest(latest(due, e.activeAt.Add(settle)), e.notUntil))
	default:
		return
	}
	if e.index == 0 {
		k.wakeUp()
	}
}

// chance is between 0 and 1.
func chance() float64 {
	return rand.Float64() //nolint:gosec // nobody gains anything by guessing it
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
