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
	"k8s.io/klog/v2"
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
		e.join(&k.wakes, latest(e.wroteAt.Add(wakeGap), e.notUntil))
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

func (k *Keeper) wakeUp() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends, and returns when the last write has.
func (k *Keeper) Run(ctx context.Context) {
	var writes sync.WaitGroup
	defer writes.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, wait := k.next(time.Now())
		if next != nil {
			writes.Go(func() { k.write(ctx, next) })
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-k.kick:
		}
	}
}

// idle is how long Run sleeps when nothing is to be done; it is kicked when that changes.
const idle = time.Hour

// urgentAt is when a renewal does not wait for the budget any longer, so that no busy Workspace is taken for idle.
func (e *entry) urgentAt() time.Time {
	if e.seenAt.IsZero() {
		return e.bornAt.Add(e.Window / 2)
	}
	return e.seenAt.Add(e.Window / 2)
}

// next takes what is to be written now out of its queue, or says how long there is nothing.
func (k *Keeper) next(now time.Time) (*task, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for top := k.later.top(); top != nil && !top.at.After(now); top = k.later.top() {
		top.leave()
		top.join(&k.due, top.urgentAt())
	}
	wait := idle // or until the end of a write, which kicks
	if top := k.wakes.top(); top != nil && k.writing < concurrentWrites {
		if !top.at.After(now) {
			return k.take(top, now), 0
		}
		wait = min(wait, top.at.Sub(now))
	}
	if top := k.due.top(); top != nil && k.writing < concurrentWrites-reservedForWakes {
		if k.limiter.AllowN(now, 1) || !top.at.After(now) {
			return k.take(top, now), 0
		}
		wait = min(wait, time.Second/time.Duration(k.config.WritesPerSecond), top.at.Sub(now))
	}
	if top := k.later.top(); top != nil {
		wait = min(wait, top.at.Sub(now))
	}
	return nil, wait
}

// task is one write.
type task struct {
	*entry
	ws   Workspace // as it was then
	wake bool
}

func (k *Keeper) take(e *entry, now time.Time) *task {
	e.leave()
	k.writing++
	next := &task{e, e.Workspace, e.wake}
	e.writing, e.wake, e.wroteAt = true, false, now
	return next
}

// write renews one Lease. Traffic that comes while it runs counts as later than it.
func (k *Keeper) write(ctx context.Context, next *task) {
	e, ws, wake, started := next.entry, next.ws, next.wake, time.Now()
	attempt, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := k.config.Write(attempt, ws)
	if k.config.Wrote != nil {
		k.config.Wrote(wake, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writing--
	k.wakeUp()
	e.writing = false
	if ctx.Err() == nil {
		k.log(ctx, ws, err)
	}
	if k.entries[ws.UID] != e {
		return // forgotten meanwhile
	}
	if err != nil {
		longest := lastRetry
		if wake {
			longest = lastWakeRetry
		}
		pause := min(longest, firstRetry<<min(e.failures, 10))
		e.failures++
		e.notUntil = time.Now().Add(time.Duration((1 - jitter + jitter*chance()) * float64(pause)))
		e.wake = e.wake || wake
		k.schedule(e)
		return
	}
	e.failures, e.notUntil = 0, time.Time{}
	k.seen(e, started)
	if e.queue == nil {
		k.schedule(e) // somebody else's renewal was seen since
	}
}

// log tells once that writes fail, and once that they work again.
func (k *Keeper) log(ctx context.Context, ws Workspace, err error) {
	switch logger := klog.FromContext(ctx); {
	case err != nil && !k.failing:
		logger.Error(err, "Cannot renew Leases, trying until it works: awake Workspaces go on, sleeping ones cannot wake up", "workspace", klog.KRef(ws.Namespace, ws.Name))
	case err == nil && k.failing:
		logger.Info("Leases are renewed again")
	}
	k.failing = err != nil
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
