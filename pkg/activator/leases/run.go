// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

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
		next, pause := k.next(time.Now())
		if next != nil {
			writes.Go(func() { k.write(ctx, next) })
			continue
		}
		timer.Reset(pause)
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
	pause := idle // or until the end of a write, which kicks
	if top := k.wakes.top(); top != nil && k.writing < concurrentWrites {
		if !top.at.After(now) {
			return k.take(top, now), 0
		}
		pause = min(pause, top.at.Sub(now))
	}
	if top := k.due.top(); top != nil && k.writing < concurrentWrites-reservedForWakes {
		if k.limiter.AllowN(now, 1) || !top.at.After(now) {
			return k.take(top, now), 0
		}
		pause = min(pause, time.Second/time.Duration(k.config.WritesPerSecond), top.at.Sub(now))
	}
	if top := k.later.top(); top != nil {
		pause = min(pause, top.at.Sub(now))
	}
	return nil, pause
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
		e.notUntil = time.Now().Add(wait.Jitter(pause, jitter))
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
		logger.Error(err, "Cannot renew Leases, trying until it works: awake Workspaces go on, sleeping ones cannot wake up",
			"workspace", klog.KRef(ws.Namespace, ws.Name))
	case err == nil && k.failing:
		logger.Info("Leases are renewed again")
	}
	k.failing = err != nil
}
