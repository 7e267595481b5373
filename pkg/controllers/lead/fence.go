// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrFenced refuses a request because this process does not lead, or no longer surely does.
var ErrFenced = errors.New("refused: this process does not hold the lease")

// A Fence is open while this process leads and its last renewal is fresh. It opens once, and once closed it stays closed.
// It is made by [NewFence], opened and closed by [Run], and safe for concurrent use.
type Fence struct {
	clock clock.Clock

	// closed ends with the cause ErrFenced when the fence closes for good.
	closed context.Context
	shut   context.CancelCauseFunc

	mu     sync.Mutex
	opened bool
	until  time.Time // zero while opened: there is no lease, and so no end
}

// NewFence returns a fence that is not open yet. c must be monotonic, as the real clock is.
func NewFence(c clock.Clock) *Fence {
	closed, shut := context.WithCancelCause(context.Background())
	return &Fence{clock: c, closed: closed, shut: shut}
}

// Check returns nil while the fence is open, else ErrFenced.
func (f *Fence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.opened || f.ended() {
		return ErrFenced
	}
	return nil
}

// Done is closed once the fence has closed for good.
func (f *Fence) Done() <-chan struct{} { return f.closed.Done() }

// extend keeps the fence open until a moment, unless it has closed in the meantime.
func (f *Fence) extend(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended() {
		f.opened, f.until = true, until
	}
}

// openForGood opens a fence that no lease guards.
func (f *Fence) openForGood() { f.extend(time.Time{}) }

// seal closes the fence for good.
func (f *Fence) seal() { f.shut(ErrFenced) }

// mayWriteLease returns nil before the fence has opened, and while it is open: a lease that may be another's is not ours to write.
func (f *Fence) mayWriteLease() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended() {
		return ErrFenced
	}
	return nil
}

// fresh reports whether the last renewal still holds, even when the fence is closed already.
func (f *Fence) fresh() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened && !f.stale()
}

// watch closes the fence when its time is up, and returns when it is closed.
func (f *Fence) watch() {
	timer := f.clock.NewTimer(f.remaining())
	defer timer.Stop()
	for {
		select {
		case <-f.closed.Done():
			return
		case <-timer.C():
			if f.Check() != nil {
				return
			}
			timer.Reset(f.remaining())
		}
	}
}

func (f *Fence) remaining() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.until.Sub(f.clock.Now())
}

// ended reports whether the fence is closed for good. Whoever finds it stale closes it: a late renewal must not open it again.
func (f *Fence) ended() bool {
	if f.closed.Err() == nil && f.stale() {
		f.seal()
	}
	return f.closed.Err() != nil
}

// stale compares both clocks: a machine that is suspended stops the monotonic clock but not the wall clock.
func (f *Fence) stale() bool {
	if f.until.IsZero() {
		return false
	}
	now := f.clock.Now()
	return !now.Before(f.until) || !now.Round(0).Before(f.until.Round(0))
}
