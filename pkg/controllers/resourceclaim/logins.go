// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// The bounds of the work on servers, which may wait for a dead one until its deadline.
const (
	workDeadline     = 15 * time.Second
	maxWork          = 32 // at a time
	maxWorkNamespace = 4  // of it, for one namespace
)

// logins works on the claims' logins in the background, one work at a time for each claim, and remembers what became of it.
type logins struct {
	clock    clock.PassiveClock
	mu       sync.Mutex
	ctx      context.Context // of run; nil before and after
	wait     sync.WaitGroup
	attempts map[cache.ObjectName]*attempt
	waiting  []func() bool // starts a work, unless its namespace has enough
	running  map[string]int
	total    int
}

// attempt is the last of a claim, and whether another is under way.
type attempt struct {
	uid   types.UID
	busy  bool
	ended *resourceclaim.Attempt
}

func newLogins(clk clock.PassiveClock) *logins {
	return &logins{clock: clk, attempts: map[cache.ObjectName]*attempt{}, running: map[string]int{}}
}

// run lets work begin, until stop is called, which ends what is under way and waits for it.
func (l *logins) run(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx = ctx
	l.next()
	return func() {
		l.mu.Lock()
		l.ctx = nil
		l.mu.Unlock()
		cancel()
		l.wait.Wait()
	}
}

// last is the claim's last attempt. Nil: there was none.
func (l *logins) last(key cache.ObjectName, uid types.UID) *resourceclaim.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.attempts[key]; a != nil && a.uid == uid {
		return a.ended
	}
	return nil
}

// forget drops the last attempt, and with it the password that it may hold.
func (l *logins) forget(key cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.attempts[key]; a != nil && a.busy {
		a.ended = nil
	} else {
		delete(l.attempts, key)
	}
}

// start works for the claim as soon as there is room, and then calls done. It does nothing while something is under way for the claim.
func (l *logins) start(key cache.ObjectName, uid types.UID, drop bool, what string, work func(context.Context) resourceclaim.Attempt, done func()) (started bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.attempts[key]
	if a == nil {
		a = &attempt{}
		l.attempts[key] = a
	}
	if a.busy {
		return false
	}
	if a.uid != uid || (a.ended != nil && (a.ended.Drop != drop || a.ended.For != what)) {
		a.ended = nil
	}
	a.uid, a.busy = uid, true
	l.waiting = append(l.waiting, func() bool {
		if l.running[key.Namespace] >= maxWorkNamespace {
			return false
		}
		l.count(key.Namespace, 1)
		ctx := l.ctx
		l.wait.Go(func() {
			ended := try(ctx, drop, what, work)
			l.finish(key, a, ended)
			done()
		})
		return true
	})
	l.next()
	return true
}

// finish takes in what became of an attempt.
func (l *logins) finish(key cache.ObjectName, a *attempt, ended resourceclaim.Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ended.At = l.clock.Now(); ended.Reason != "" {
		ended.Failures = 1
		if a.ended != nil {
			ended.Failures += a.ended.Failures
		}
	}
	a.busy, a.ended = false, &ended
	l.count(key.Namespace, -1)
	l.next()
}

// next starts what may be started, in the order in which it came. The lock is held, as in count.
func (l *logins) next() {
	var still []func() bool
	for _, begin := range l.waiting {
		if l.ctx == nil || l.total >= maxWork || !begin() {
			still = append(still, begin)
		}
	}
	l.waiting = still
}

func (l *logins) count(namespace string, n int) {
	l.total += n
	if l.running[namespace] += n; l.running[namespace] == 0 {
		delete(l.running, namespace)
	}
}

// try bounds the work, and keeps a panic in it from ending the operator. What that says is not logged: it may quote a secret.
func try(ctx context.Context, drop bool, what string, work func(context.Context) resourceclaim.Attempt) (ended resourceclaim.Attempt) {
	ctx, cancel := context.WithTimeout(ctx, workDeadline)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(nil, "Work on a login panicked", "stack", string(debug.Stack()))
			ended = resourceclaim.Attempt{
				Drop: drop, For: what, Reason: v1alpha1.ReasonInternalError, Message: "the operator itself failed; its log has the details",
			}
		}
	}()
	return work(ctx)
}
