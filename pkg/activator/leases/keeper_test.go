// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/ktesting"
)

const (
	window  = 5 * time.Minute
	quarter = window / renewalsPerWindow
	latency = 20 * time.Millisecond // of a write, and of the watch event that tells of it
)

// cluster has the Leases; all replicas see them change.
type cluster struct {
	*testing.T
	mu       sync.Mutex
	away     bool
	writes   []write
	replicas []*Keeper
}

// pass lets time pass, in the bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in the bubble's time
}

type write struct {
	uid types.UID
	at  time.Time
}

func (c *cluster) write(_ context.Context, ws Workspace) error {
	pass(latency)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return errors.New("connection refused")
	}
	at := time.Now()
	c.writes = append(c.writes, write{ws.UID, at})
	time.AfterFunc(latency, func() {
		for _, k := range c.replicas {
			k.Seen(ws.UID, time.Now())
		}
	})
	return nil
}

func (c *cluster) of(uid types.UID) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var times []time.Time
	for _, w := range c.writes {
		if w.uid == uid {
			times = append(times, w.at)
		}
	}
	return times
}

func (c *cluster) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.writes)
}

func (c *cluster) setAway(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

// inBubble runs a test with that many replicas in a time of its own.
func inBubble(t *testing.T, replicas int, test func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		_, ctx := ktesting.NewTestContext(t)
		ctx, stop := context.WithCancel(ctx)
		c := &cluster{T: t}
		var running sync.WaitGroup
		for range replicas {
			k := NewKeeper(Config{Write: c.write, WritesPerSecond: 20})
			c.replicas = append(c.replicas, k)
			running.Go(func() { k.Run(ctx) })
		}
		test(c)
		stop()
		running.Wait()
		pass(latency) // the last events
	})
}

func workspace(i int) Workspace {
	return Workspace{Namespace: "bank", Name: fmt.Sprintf("w%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i)), Window: window}
}

// request is one that takes no time.
func request(k *Keeper, ws Workspace) {
	k.Begin(ws)
	k.End(ws)
}

func TestTheFirstRequestIsTold(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		request(c.replicas[0], workspace(1))
		pass(time.Second)
		if got := c.of("uid-1"); len(got) != 1 {
			c.Errorf("writes at %v, want one at once", got)
		}
		pass(time.Hour)
		if got := c.of("uid-1"); len(got) != 1 {
			c.Errorf("writes at %v: nothing came after the first request", got)
		}
	})
}

// The operator counts the window from the last change that it sees, so this must come after the last request.
func TestTheLastRenewalComesAfterTheLastRequest(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		for i := range 30 { // every 20 s for 10 minutes, alternating
			request(c.replicas[i%2], workspace(1))
			pass(20 * time.Second)
		}
		last := time.Now().Add(-20 * time.Second)
		pass(time.Hour)
		got := c.of("uid-1")
		if end := got[len(got)-1]; !end.After(last) || end.After(last.Add(quarter+quarter/4+time.Second)) {
			c.Errorf("the last request was at %v, the last renewal at %v", last, end)
		}
		// Two replicas may renew at the same moment, before either has seen the other; but seldom.
		if most := int(10*time.Minute/quarter) + 3; len(got) > most {
			c.Errorf("%d renewals in 10 minutes, want at most %d", len(got), most)
		}
		for i := 1; i < len(got); i++ {
			if gap := got[i].Sub(got[i-1]); gap > window/2 {
				c.Errorf("two renewals are %s apart", gap)
			}
		}
	})
}

func TestALongRequestIsRenewedWhileItRuns(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		k, ws := c.replicas[0], workspace(1)
		k.Begin(ws)
		pass(time.Hour)
		k.End(ws)
		got := c.of("uid-1")
		if n, most := len(got), int(time.Hour/quarter)+1; n > most || n < most*3/4 {
			c.Errorf("%d renewals in an hour, want about %d", n, most)
		}
		for i := 1; i < len(got); i++ {
			if gap := got[i].Sub(got[i-1]); gap > window/2 {
				c.Errorf("two renewals are %s apart", gap)
			}
		}
	})
}

func TestAnotherReplicasRenewalCounts(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		for _, k := range c.replicas {
			k.Begin(workspace(1))
		}
		pass(time.Hour)
		for _, k := range c.replicas {
			k.End(workspace(1))
		}
		// All three begin at the same moment, before any has seen a renewal: three writes. From then on they share.
		if n, most := len(c.of("uid-1")), int(time.Hour/quarter)+3; n > most+most/10 {
			c.Errorf("three replicas renewed %d times in an hour, want about %d", n, most)
		}
	})
}

func TestAThousandBusyWorkspacesStayInTheBudget(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		const workspaces, minutes = 1000, 20
		for range minutes * 3 {
			for i := range workspaces {
				request(c.replicas[i%2], workspace(i))
			}
			pass(20 * time.Second)
		}
		// Each replica keeps the budget; together they renew each Workspace once in a quarter of its window.
		if n, most := c.count(), workspaces*(int(minutes*time.Minute/quarter)+1); n > most {
			c.Errorf("%d writes in %d minutes, want at most %d", n, minutes, most)
		}
		start := c.writes[0].at
		perSecond := map[int]int{}
		for _, w := range c.writes {
			perSecond[int(w.at.Sub(start)/time.Second)]++
		}
		for second, n := range perSecond {
			if n > 2*20+2 { // each replica has its own budget, and the two may be used in one second
				c.Errorf("%d writes in second %d", n, second)
			}
		}
		if mean := float64(c.count()) / (minutes * 60); mean > 20 {
			c.Errorf("%.1f writes a second, want at most 20", mean)
		}
		for i := range workspaces {
			got := c.of(workspace(i).UID)
			for j := 1; j < len(got); j++ {
				if gap := got[j].Sub(got[j-1]); gap > window/2+time.Minute/2 {
					c.Fatalf("Workspace %d was not renewed for %s of a window of %s", i, gap, window)
				}
			}
		}
	})
}

// The budget is there to be kind to the API server, not to put busy Workspaces to sleep.
func TestTheBudgetIsExceededRatherThanAWindow(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		const long, short = 6000, 20 // 20 writes a second renew 6,000 in 300 s: their whole window
		for i := range long + short {
			ws := workspace(i)
			if i >= long {
				ws.Window = time.Minute
			}
			c.replicas[0].Begin(ws)
		}
		pass(20 * time.Minute)
		synctest.Wait()
		worst := map[bool]time.Duration{}
		last := map[types.UID]time.Time{}
		for _, w := range c.writes {
			if before, ok := last[w.uid]; ok {
				isShort := shortUID(w.uid, long)
				worst[isShort] = max(worst[isShort], w.at.Sub(before))
			}
			last[w.uid] = w.at
		}
		if worst[false] > window*3/4 || worst[true] > 45*time.Second {
			c.Errorf("the longest time without a renewal is %s of %s, and %s of 1m", worst[false], window, worst[true])
		}
	})
}

func shortUID(uid types.UID, from int) bool {
	var i int
	_, err := fmt.Sscanf(string(uid), "uid-%d", &i)
	return err == nil && i >= from
}

func TestAWakeGoesAtOnceAndOnce(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		k := c.replicas[0]
		for i := range 3000 {
			k.Begin(workspace(i)) // a backlog of renewals
		}
		pass(5 * time.Second)
		k.Seen("uid-9999", time.Now()) // renewed a moment ago: a wake does not care
		before := time.Now()
		for range 1000 {
			k.Wake(workspace(9999))
		}
		pass(900 * time.Millisecond)
		got := c.of("uid-9999")
		if len(got) != 1 || got[0].Sub(before) > 2*latency {
			c.Fatalf("1,000 wakes are writes at %v, want one at %v", got, before)
		}
		for range 200 { // 10 s
			k.Wake(workspace(9999))
			pass(50 * time.Millisecond)
		}
		if n := len(c.of("uid-9999")); n > 12 || n < 9 {
			c.Errorf("%d writes for wakes in 11 s, want one a second", n)
		}
	})
}

// Renewals that the API server takes long for leave room for wakes.
func TestWakesDoNotQueueBehindSlowRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := ktesting.NewTestContext(t)
		ctx, stop := context.WithCancel(ctx)
		var mu sync.Mutex
		woken := time.Time{}
		k := NewKeeper(Config{WritesPerSecond: 1000, Write: func(ctx context.Context, ws Workspace) error {
			if ws.UID == "uid-9999" {
				mu.Lock()
				defer mu.Unlock()
				woken = time.Now()
				return nil
			}
			<-ctx.Done() // by its deadline
			return ctx.Err()
		}})
		var running sync.WaitGroup
		running.Go(func() { k.Run(ctx) })
		for i := range 100 {
			k.Begin(workspace(i))
		}
		pass(time.Second)
		before := time.Now()
		k.Wake(workspace(9999))
		pass(time.Second)
		mu.Lock()
		if woken.IsZero() || woken.Sub(before) > 10*time.Millisecond {
			t.Errorf("asked for a wake at %v, it went at %v", before, woken)
		}
		mu.Unlock()
		stop()
		running.Wait()
	})
}

// A request that finds its Workspace asleep is one write, not a renewal and a wake.
func TestAWakeIsRenewalEnough(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		k, before := c.replicas[0], time.Now()
		k.Begin(workspace(1))
		pass(time.Millisecond)
		k.Wake(workspace(1))
		pass(quarter - time.Second)
		if got := c.of("uid-1"); len(got) != 1 || got[0].Sub(before) > 2*latency {
			c.Errorf("writes at %v, want one at %v", got, before)
		}
		k.End(workspace(1))
	})
}

func TestNothingIsLostWhileTheAPIServerIsAway(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		k := c.replicas[0]
		request(k, workspace(1))
		pass(time.Second)
		c.setAway(true)
		k.Begin(workspace(1))
		request(k, workspace(2))
		k.Wake(workspace(3))
		pass(4 * time.Minute)
		if n := c.count(); n != 1 {
			c.Fatalf("%d writes while it is away", n)
		}
		k.Wake(workspace(1)) // whose renewals have failed for long
		c.setAway(false)
		back := time.Now()
		pass(2 * lastRetry)
		if got := c.of("uid-3"); len(got) == 0 || got[0].Sub(back) > lastWakeRetry+time.Second {
			c.Errorf("the wake came at %v, it was back at %v", got, back)
		}
		if got := c.of("uid-1"); len(got) < 2 || got[1].Sub(back) > lastWakeRetry+time.Second {
			c.Errorf("the wake of a busy one came at %v, it was back at %v", got, back)
		}
		for _, uid := range []types.UID{"uid-1", "uid-2"} {
			if got := c.of(uid); len(got) == 0 || got[len(got)-1].Before(back) {
				c.Errorf("%s was not renewed after it was back", uid)
			}
		}
		k.End(workspace(1))
	})
}

func TestALeaseThatIsDeletedIsMadeAgainForTraffic(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		k := c.replicas[0]
		k.Begin(workspace(1))
		request(k, workspace(2))
		pass(time.Second)
		for _, uid := range []types.UID{"uid-1", "uid-2", "uid-3"} {
			k.Lost(uid)
		}
		pass(time.Second)
		if busy, idle := len(c.of("uid-1")), len(c.of("uid-2")); busy != 2 || idle != 1 {
			c.Errorf("%d writes for the busy one and %d for the idle one, want 2 and 1", busy, idle)
		}
		k.End(workspace(1))
	})
}

// The write that runs may have been sent before, so what comes while it runs needs another.
func TestARequestDuringAWriteIsToldLater(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		k := c.replicas[0]
		c.mu.Lock()
		c.replicas = nil // no events tell of it
		c.mu.Unlock()
		request(k, workspace(1))
		pass(settle + latency/2)
		request(k, workspace(1))
		pass(time.Hour)
		if got := c.of("uid-1"); len(got) != 2 {
			c.Errorf("writes at %v, want two", got)
		}
	})
}

// The renewal after the last request comes up to a quarter of the window later. If the Workspace was sent to sleep meanwhile it would be a wake.
func TestASleeperIsNotRenewedForRequestsOfBefore(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		k, quiet, busy, waking := c.replicas[0], workspace(0), workspace(1), workspace(2)
		for _, ws := range []Workspace{quiet, busy, waking} {
			request(k, ws)
		}
		pass(time.Second)
		request(k, quiet)
		k.Begin(busy)
		before := c.count()

		// when
		for _, ws := range []Workspace{quiet, busy, waking} {
			k.Slept(ws.UID)
		}
		k.Wake(waking)
		k.Slept(waking.UID)
		pass(window)

		// then
		if n := len(c.of(quiet.UID)); n != 1 {
			t.Errorf("the Lease of one that sleeps was written %d times, want 1", n)
		}
		if len(c.of(busy.UID)) < 2 || len(c.of(waking.UID)) < 2 {
			t.Errorf("of %d writes since, none was for a request that runs, or none was a wake", c.count()-before)
		}
		k.End(busy)
		request(k, quiet)
		pass(window)
		if n := len(c.of(quiet.UID)); n != 2 {
			t.Errorf("after its next request it was written %d times, want 2", n)
		}
	})
}

func TestAForgottenWorkspaceIsNotWritten(t *testing.T) {
	inBubble(t, 1, func(c *cluster) {
		k := c.replicas[0]
		k.Begin(workspace(1))
		pass(time.Second)
		k.Forget("uid-1")
		k.Forget("uid-2")
		k.End(workspace(1)) // its request ends only now
		pass(time.Hour)
		if n := c.count(); n != 1 {
			c.Errorf("%d writes, want the first only", n)
		}
	})
}

func TestRunEndsAfterTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ctx := ktesting.NewTestContext(t)
		ctx, stop := context.WithCancel(ctx)
		writing, ended := make(chan struct{}), false
		k := NewKeeper(Config{WritesPerSecond: 20, Write: func(ctx context.Context, _ Workspace) error {
			close(writing)
			<-ctx.Done()
			pass(time.Second)
			ended = true
			return ctx.Err()
		}})
		k.Wake(workspace(1))
		go func() { <-writing; stop() }()
		k.Run(ctx)
		if !ended {
			t.Error("Run returned while a write was going on")
		}
	})
}
