// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// The bounds of a Pool. A probe that waits for a dead host costs some goroutines and a file descriptor, and no processor
// time. So there may be many, which is what keeps the living from queueing behind the dead, within bounds that no
// namespace and no set of dead hosts can use up.
const (
	maxProbes       = 128 // at a time
	maxPerNamespace = 64  // of those, from one namespace
	maxSuspects     = 16  // of those, to hosts that did not answer the last time
	maxPerHost      = 2   // of those, to one host of one namespace
)

// The back-off of a host that does not answer.
const (
	backoffBase = time.Second
	backoffCap  = time.Minute
)

// Pool runs probes off the sync workers. It never blocks its callers.
type Pool struct {
	probe func(context.Context, Endpoint) Result
	clock clock.PassiveClock

	mu         sync.Mutex
	ctx        context.Context // of Run, which every probe ends with; nil before and after
	wait       sync.WaitGroup
	waiting    []*job
	jobs       map[cache.ObjectName]*job // waiting or running, and wanted
	hosts      map[string]*hostState
	namespaces map[string]int // probes that run
	running    int
	suspects   int
}

// job is one probe that somebody waits for.
type job struct {
	key      cache.ObjectName
	endpoint Endpoint
	done     func(Result)
	host     string
	suspect  bool               // counted as one
	cancel   context.CancelFunc // set while it runs
	unwanted bool               // nobody waits any more
}

// hostState is what is known of a host, as seen from one namespace with one driver. Nothing is shared between
// namespaces: one could otherwise make another's datastore look dead.
type hostState struct {
	running  int
	failures int // in a row
	until    time.Time
	last     Result
}

// NewPool returns a pool for a function such as Prober.Probe, which must return soon after its context ends, and the clock
// to back off by.
func NewPool(probe func(context.Context, Endpoint) Result, clk clock.PassiveClock) *Pool {
	return &Pool{
		probe: probe, clock: clk,
		jobs: map[cache.ObjectName]*job{}, hosts: map[string]*hostState{}, namespaces: map[string]int{},
	}
}

// Run probes until the context ends, and returns when the last probe has ended.
func (p *Pool) Run(ctx context.Context) {
	p.mu.Lock()
	p.ctx = ctx
	p.start()
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.ctx = nil
	p.mu.Unlock()
	p.wait.Wait()
}

// Submit asks for a probe of the endpoint that the object with this key has. done is called once with the result, from a
// goroutine of the pool, unless Forget, another Submit for the same key, or the end of Run comes first. Asking again for
// what is being answered starts nothing, and the last done is called: whoever asks again knows more than before.
//
// A host that does not answer is left alone for a while, which grows from a second to a minute. Until then the answer is
// the last one, with RetryAfter set.
func (p *Pool) Submit(key cache.ObjectName, endpoint Endpoint, done func(Result)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if current := p.jobs[key]; current != nil {
		if current.endpoint.Equal(endpoint) {
			current.done = done
			return
		}
		p.drop(current)
	}
	j := &job{key: key, endpoint: endpoint, done: done, host: hostKey(key, endpoint)}
	p.jobs[key] = j
	p.waiting = append(p.waiting, j)
	p.start()
}

// Forget ends what is under way for the key.
func (p *Pool) Forget(key cache.ObjectName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if current := p.jobs[key]; current != nil {
		p.drop(current)
	}
}

// hostKey names what fails together.
func hostKey(key cache.ObjectName, endpoint Endpoint) string {
	e := endpoint.get()
	return strings.Join([]string{key.Namespace, string(e.driver), e.scheme, e.option("sslmode"), strings.Join(e.hostNames(), ",")}, "|")
}

// drop makes a job unwanted. The lock is held, as in all that follow.
func (p *Pool) drop(j *job) {
	delete(p.jobs, j.key)
	j.unwanted = true
	if j.cancel != nil {
		j.cancel() // and finish tidies up
		return
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(other *job) bool { return other == j })
}

// start starts what may be started, in the order in which it came, and answers what need not be.
func (p *Pool) start() {
	if p.ctx == nil {
		return
	}
	now := p.clock.Now()
	var still []*job
	for _, j := range p.waiting {
		host := p.hosts[j.host]
		if host == nil {
			host = &hostState{}
		}
		suspect := host.failures > 0
		switch {
		case suspect && now.Before(host.until):
			p.answer(j, host, now)
		case p.running >= maxProbes, p.namespaces[j.key.Namespace] >= maxPerNamespace,
			suspect && p.suspects >= maxSuspects, host.running >= maxPerHost, suspect && host.running > 0:
			still = append(still, j)
		default:
			j.suspect = suspect
			p.hosts[j.host] = host
			p.launch(j)
		}
	}
	p.waiting = still
}

func (p *Pool) launch(j *job) {
	p.count(j, 1)
	ctx, cancel := context.WithCancel(p.ctx)
	j.cancel = cancel
	p.wait.Go(func() {
		defer cancel()
		p.finish(ctx, j, p.try(ctx, j.endpoint))
	})
}

// answer gives a job the host's last result.
func (p *Pool) answer(j *job, host *hostState, now time.Time) {
	delete(p.jobs, j.key)
	result, done := host.last, j.done
	result.RetryAfter = host.until.Sub(now)
	ctx := p.ctx
	p.wait.Go(func() { tell(ctx, j.key, done, result) })
}

// count adds a job to what runs, or takes it out.
func (p *Pool) count(j *job, n int) {
	p.running += n
	p.hosts[j.host].running += n
	if j.suspect {
		p.suspects += n
	}
	if p.namespaces[j.key.Namespace] += n; p.namespaces[j.key.Namespace] == 0 {
		delete(p.namespaces, j.key.Namespace)
	}
}

// finish takes a job out of the pool and tells who waits for it.
func (p *Pool) finish(ctx context.Context, j *job, result Result) {
	p.mu.Lock()
	p.count(j, -1)
	host, now := p.hosts[j.host], p.clock.Now()
	wanted := !j.unwanted && p.ctx != nil && p.ctx.Err() == nil
	if wanted {
		delete(p.jobs, j.key)
		if result.Reason == v1alpha1.ReasonUnreachable {
			if !now.Before(host.until) { // two probes at a time are one failure
				host.failures++
				host.until = now.Add(backoff(host.failures))
			}
			host.last = result
			result.RetryAfter = host.until.Sub(now)
		} else {
			host.failures, host.until = 0, time.Time{}
		}
	}
	p.forgetHosts(now)
	p.start()
	done := j.done
	p.mu.Unlock()
	if wanted {
		tell(ctx, j.key, done, result)
	}
}

// tell keeps a panic in who waits for a result from ending the operator, and with it the work for all others.
func tell(ctx context.Context, key cache.ObjectName, done func(Result), result Result) {
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(nil, "Taking in the result of a probe panicked", "datastore", key, "stack", string(debug.Stack()))
		}
	}()
	done(result)
}

// backoff doubles with each failure.
func backoff(failures int) time.Duration {
	return min(backoffCap, backoffBase<<min(failures-1, 10))
}

// forgetHosts keeps the map from growing: a host that was not asked about for some time is like a new one.
func (p *Pool) forgetHosts(now time.Time) {
	for name, host := range p.hosts {
		if host.running == 0 && (host.failures == 0 || now.Sub(host.until) > 5*backoffCap) {
			delete(p.hosts, name)
		}
	}
}

// try keeps a panic in one probe from ending the operator. What it says is not logged: it may quote what a server sent.
func (p *Pool) try(ctx context.Context, endpoint Endpoint) (result Result) {
	defer func() {
		if r := recover(); r != nil {
			klog.FromContext(ctx).Error(nil, "Probing a datastore panicked", "endpoint", endpoint, "stack", string(debug.Stack()))
			result = Result{Reason: v1alpha1.ReasonInternalError, Message: "probing the endpoint failed in the operator itself"}
		}
	}()
	return p.probe(ctx, endpoint)
}
