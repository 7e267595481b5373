// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A wake that failed holds the next one back for 10 s, then twice as long each time, up to 5 min.
const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
)

// failure are the wakes in a row that failed.
type failure struct {
	count   int
	at      time.Time // of the last one
	attempt string
}

// left is how long the next wake has to wait.
func (f failure) left(now time.Time, attempt string) time.Duration {
	if f.count == 0 || f.attempt != attempt {
		return 0
	}
	backoff := maxBackoff
	if doublings := f.count - 1; doublings < 5 {
		backoff = firstBackoff << doublings
	}
	return max(0, backoff-now.Sub(f.at))
}

// WakeFailed holds the next wake of a Workspace back for as long as the attempt is the same.
func (t *Tracker) WakeFailed(uid types.UID, attempt string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures[uid] = failure{count: t.failures[uid].count + 1, at: t.clock.Now(), attempt: attempt}
}

// Woke forgets failed wakes.
func (t *Tracker) Woke(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failures, uid)
}
