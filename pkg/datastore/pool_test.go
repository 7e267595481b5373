// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

// pool is a Pool in a bubble of its own time, with hosts that answer as their name says: "dead" ones after five seconds,
// and all others at once.
type pool struct {
	*datastore.Pool
	t *testing.T

	mu sync.Mutex
	observed
}

// observed is what happened so far.
type observed struct {
	running int // probes, now
	most    int // probes at a time
	probes  map[string]int
	results map[string]datastore.Result
	times   map[string]time.Duration // from Submit to the result
}

func inPool(t *testing.T, test func(p *pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pool{t: t, observed: observed{probes: map[string]int{}, results: map[string]datastore.Result{}, times: map[string]time.Duration{}}}
		p.Pool = datastore.NewPool(p.probe, clock.RealClock{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			p.Run(ctx)
			close(done)
		}()
		test(p)
		cancel()
		<-done
	})
}

func (p *pool) probe(ctx context.Context, e datastore.Endpoint) datastore.Result {
	host := e.Hosts()[0].Host
	p.mu.Lock()
	p.probes[host]++
	p.running++
	p.most = max(p.most, p.running)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.running--
		p.mu.Unlock()
	}()
	switch host[:4] {
	case "boom":
		panic("hunter2")
	case "dead":
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
		return datastore.Result{Reason: v1alpha1.ReasonUnreachable}
	}
	return datastore.Result{Reason: v1alpha1.ReasonValidated, Message: e.Password()}
}

// after is what was observed when some time has passed and everything waits. It counts the most probes at a time anew.
func (p *pool) after(d time.Duration) observed {
	time.Sleep(d) //nolint:forbidigo // in the bubble's time
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.observed
	o.probes, o.results, o.times = maps.Clone(o.probes), maps.Clone(o.results), maps.Clone(o.times)
	p.most = 0
	return o
}

// submit asks for a probe of a host and notes the result under the object's name.
func (p *pool) submit(namespace, name, host string) {
	p.submitWith(namespace, name, "redis://"+host)
}

func (p *pool) submitWith(namespace, name, text string) {
	start := time.Now()
	p.Submit(cache.NewObjectName(namespace, name), parse(p.t, rd, text, nil), func(r datastore.Result) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, twice := p.results[name]; twice {
			p.t.Errorf("%s got two results", name)
		}
		p.results[name], p.times[name] = r, time.Since(start)
	})
}

func TestPoolAnswersAtOnceBesideTheDead(t *testing.T) {
	inPool(t, func(p *pool) {
		for i := range 50 {
			p.submit("tenant", fmt.Sprintf("dead-%d", i), fmt.Sprintf("dead-%d", i))
		}
		p.submit("tenant", "good", "good")
		o := p.after(0)
		if o.results["good"].Reason != v1alpha1.ReasonValidated || o.times["good"] != 0 {
			p.t.Errorf("the good one got %+v after %s", o.results["good"], o.times["good"])
		}
	})
}

func TestPoolIsBounded(t *testing.T) {
	inPool(t, func(p *pool) {
		for namespace := range 5 {
			for i := range 100 {
				p.submit(fmt.Sprintf("tenant-%d", namespace), fmt.Sprintf("dead-%d-%d", namespace, i), fmt.Sprintf("dead-%d-%d", namespace, i))
			}
		}
		o := p.after(0)
		if o.most != 128 {
			p.t.Errorf("%d probes run at a time, want 128", o.most)
		}
	})
}

func TestPoolLeavesRoomForOtherNamespaces(t *testing.T) {
	inPool(t, func(p *pool) {
		for i := range 500 {
			p.submit("greedy", fmt.Sprintf("dead-%d", i), fmt.Sprintf("dead-%d", i))
		}
		p.submit("modest", "good", "good")
		o := p.after(0)
		if o.most > 65 || o.times["good"] != 0 || !o.results["good"].Valid() {
			p.t.Errorf("%d probes ran, and the good one got %+v after %s", o.most, o.results["good"], o.times["good"])
		}
	})
}

func TestPoolProbesADeadHostForAllWhoAskAndThenLeavesItAlone(t *testing.T) {
	inPool(t, func(p *pool) {
		for i := range 20 {
			p.submit("tenant", fmt.Sprintf("a%d", i), "dead")
		}
		o := p.after(5 * time.Second)
		if len(o.results) != 20 || o.probes["dead"] != 2 {
			p.t.Fatalf("%d answers from %d probes, want 20 from 2", len(o.results), o.probes["dead"])
		}
		want := time.Second
		for round := range 9 {
			name := fmt.Sprintf("b%d", round)
			p.submit("tenant", name, "dead")
			o = p.after(0)
			if got := o.results[name]; got.Reason != v1alpha1.ReasonUnreachable || got.RetryAfter != want || o.times[name] != 0 {
				p.t.Fatalf("in round %d: %+v after %s, want RetryAfter %s at once", round, got, o.times[name], want)
			}
			p.after(want)
			again := name + "again"
			p.submit("tenant", again, "dead")
			o = p.after(5 * time.Second)
			want = min(2*want, time.Minute)
			if got := o.results[again]; got.RetryAfter != want || o.times[again] != 5*time.Second {
				p.t.Fatalf("in round %d: %+v after %s, want RetryAfter %s after a probe", round, got, o.times[again], want)
			}
		}
	})
}

func TestPoolTriesFewHostsAgainThatWereDead(t *testing.T) {
	inPool(t, func(p *pool) {
		for i := range 60 {
			p.submit("tenant", fmt.Sprintf("a%d", i), fmt.Sprintf("dead-%d", i))
		}
		p.after(7 * time.Second)
		for i := range 60 {
			p.submit("tenant", fmt.Sprintf("b%d", i), fmt.Sprintf("dead-%d", i))
		}
		o := p.after(0)
		if o.most != 16 {
			p.t.Errorf("%d probes of hosts that were dead, want 16", o.most)
		}
		o = p.after(30 * time.Second)
		if len(o.results) != 120 {
			p.t.Errorf("%d answers, want 120", len(o.results))
		}
	})
}

func TestPoolKeepsNamespacesApart(t *testing.T) {
	inPool(t, func(p *pool) {
		p.submit("a", "first", "dead")
		p.after(5 * time.Second)
		p.submit("b", "second", "dead")
		o := p.after(0)
		if _, answered := o.results["second"]; answered {
			p.t.Error("what one namespace found out is told to the other")
		}
	})
}

func TestPoolAnswersOnceForOneKey(t *testing.T) {
	inPool(t, func(p *pool) {
		p.submitWith("tenant", "a", "redis://:old@dead")
		p.submitWith("tenant", "a", "redis://:old@dead") // the same
		p.after(0)
		p.submitWith("tenant", "a", "redis://:new@good") // another endpoint: the first is of no interest any more
		o := p.after(0)
		if got := o.results["a"]; got.Message != "new" {
			p.t.Errorf("got %+v", got)
		}
		if want := map[string]int{"dead": 1, "good": 1}; !maps.Equal(o.probes, want) {
			p.t.Errorf("probes are %v, want %v", o.probes, want)
		}
	})
}

func TestPoolForgets(t *testing.T) {
	inPool(t, func(p *pool) {
		for _, name := range []string{"running", "too", "waiting"} {
			p.submit("tenant", name, "dead")
		}
		p.after(0)
		for _, name := range []string{"running", "waiting", "unknown"} {
			p.Forget(cache.NewObjectName("tenant", name))
		}
		o := p.after(0)
		if o.running != 1 {
			p.t.Errorf("%d probes run, want 1", o.running)
		}
		o = p.after(time.Minute)
		if len(o.results) != 1 || o.results["too"].Reason != v1alpha1.ReasonUnreachable {
			p.t.Errorf("results are %+v", o.results)
		}
	})
}

func TestPoolSurvivesAPanic(t *testing.T) {
	inPool(t, func(p *pool) {
		p.submit("tenant", "a", "boom")
		p.submit("tenant", "b", "good")
		o := p.after(0)
		if o.results["a"].Reason != v1alpha1.ReasonInternalError || !o.results["b"].Valid() {
			p.t.Errorf("results are %+v", o.results)
		}
	})
}

func TestPoolSurvivesAPanicOfWhoWaits(t *testing.T) {
	inPool(t, func(p *pool) {
		for _, host := range []string{"good", "dead"} {
			p.Submit(cache.NewObjectName("tenant", host), parse(p.t, rd, "redis://"+host, nil), func(datastore.Result) { panic("hunter2") })
		}
		p.after(5 * time.Second)
		p.Submit(cache.NewObjectName("tenant", "again"), parse(p.t, rd, "redis://dead", nil), func(datastore.Result) { panic("hunter2") }) // answered at once
		p.submit("tenant", "b", "good")
		if o := p.after(0); !o.results["b"].Valid() || o.probes["dead"] != 1 {
			p.t.Errorf("%d probes of the dead one, results are %+v", o.probes["dead"], o.results)
		}
	})
}

func TestPoolKeepsWhatComesBeforeItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan datastore.Result, 1)
		p := datastore.NewPool(datastore.NewProber(datastore.ProberOptions{}).Probe, clock.RealClock{})
		p.Submit(cache.NewObjectName("tenant", "a"), parse(t, v1alpha1.DriverMemory, "memory://", nil), func(r datastore.Result) { got <- r })
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		expect(t, <-got, v1alpha1.ReasonNotProbed)
		cancel()
	})
}
