// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
)

var shopPods = cache.NewObjectName("bank", "formspec-resource-shop-pods")

// fakeNetwork says which addresses can be dialled.
type fakeNetwork struct {
	up    atomic.Bool
	dials atomic.Int32
}

func (n *fakeNetwork) dial(context.Context, string) error {
	n.dials.Add(1)
	if n.up.Load() {
		return nil
	}
	return errors.New("connection refused")
}

// bed is a set of holds in a bubble with its own time.
type bed struct {
	*holds
	network fakeNetwork
	wakes   atomic.Int32
	asleep  atomic.Bool
	results chan result
}

type result struct {
	address string
	cold    bool
	err     error
}

func newBed(total, each int) *bed {
	b := &bed{results: make(chan result, 10000)}
	b.asleep.Store(true)
	b.network.up.Store(true)
	b.holds = newHolds(Config{MaxHeld: total, MaxHeldPerWorkspace: each}, b.network.dial, nil)
	return b
}

// pass lets time pass, in the bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in the bubble's time
}

func (b *bed) waiter() waiter {
	return waiter{deadline: time.Now().Add(2 * time.Minute), wake: func() { b.wakes.Add(1) }, asleep: b.asleep.Load}
}

func (b *bed) arrive(ctx context.Context, n int) {
	for range n {
		go func() {
			address, cold, err := b.acquire(ctx, shopPods, b.waiter())
			b.results <- result{address, cold, err}
		}()
	}
	synctest.Wait()
}

func (b *bed) ended(t *testing.T) []result {
	t.Helper()
	synctest.Wait()
	var list []result
	for {
		select {
		case r := <-b.results:
			list = append(list, r)
		default:
			return list
		}
	}
}

func TestAThousandRequestsAreOneWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(5000, 1000)
		b.arrive(t.Context(), 1000)
		b.asleep.Store(false) // the operator has heard it
		pass(30 * time.Second)
		b.set(shopPods, []string{"10.0.0.1:8080", "10.0.0.2:8080"})
		got := b.ended(t)
		if len(got) != 1000 || b.wakes.Load() != 1 {
			t.Errorf("%d requests were let go, after %d wakes", len(got), b.wakes.Load())
		}
		count := map[string]int{}
		for _, r := range got {
			if !r.cold || r.err != nil {
				t.Fatalf("got %+v", r)
			}
			count[r.address]++
		}
		// The first pod that answers gets those who wait by then; none is lost, and none is let go before.
		if count["10.0.0.1:8080"]+count["10.0.0.2:8080"] != 1000 {
			t.Errorf("they went to %v", count)
		}
		if dials := b.network.dials.Load(); dials != 2 {
			t.Errorf("two endpoints were dialled %d times", dials)
		}
		if b.waiting != 0 {
			t.Errorf("%d slots are still taken", b.waiting)
		}
	})
}

func TestEndpointsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		b.set(shopPods, []string{"b:1", "a:1", "c:1"})
		b.arrive(t.Context(), 1) // it proves all of them
		b.ended(t)
		count := map[string]int{}
		for range 30 {
			address, cold, err := b.acquire(t.Context(), shopPods, b.waiter())
			if cold || err != nil {
				t.Fatal(cold, err)
			}
			count[address]++
		}
		if count["a:1"] != 10 || count["b:1"] != 10 || count["c:1"] != 10 {
			t.Errorf("they went to %v", count)
		}
		if b.wakes.Load() != 0 {
			t.Error("pods that are there were woken")
		}
	})
}

// A pod may be Ready before it can be reached.
func TestNothingIsLetGoBeforeADialSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		b.network.up.Store(false)
		b.arrive(t.Context(), 5)
		b.set(shopPods, []string{"a:1"})
		pass(3 * time.Second)
		if got := b.ended(t); len(got) != 0 {
			t.Fatalf("let go: %v", got)
		}
		if dials := b.network.dials.Load(); dials < 5 || dials > 15 {
			t.Errorf("dialled %d times in 3 s, want a few with a growing pause", dials)
		}
		b.network.up.Store(true)
		pass(lastRedial)
		if got := b.ended(t); len(got) != 5 {
			t.Errorf("let go: %v", got)
		}
	})
}

func TestAnEndpointThatFailsIsOutOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		b.set(shopPods, []string{"a:1", "b:1"})
		b.arrive(t.Context(), 1)
		b.ended(t)
		b.network.up.Store(false)
		b.suspect(shopPods, "a:1")
		for range 4 {
			if address, _, err := b.acquire(t.Context(), shopPods, b.waiter()); address != "b:1" || err != nil {
				t.Errorf("got %s, %v", address, err)
			}
		}
		b.suspect(shopPods, "b:1")
		b.arrive(t.Context(), 1)
		if got := b.ended(t); len(got) != 0 {
			t.Errorf("let go: %v", got)
		}
		b.network.up.Store(true)
		pass(lastRedial)
		if got := b.ended(t); len(got) != 1 || got[0].cold || b.wakes.Load() != 0 {
			t.Errorf("got %v after %d wakes: pods that are Ready are not asleep", got, b.wakes.Load())
		}
	})
}

// With nobody waiting the dialling ends by itself.
func TestDiallingStopsWithTheLastWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		b.network.up.Store(false)
		b.set(shopPods, []string{"a:1"})
		ctx, cancel := context.WithCancel(t.Context())
		b.arrive(ctx, 1)
		cancel()
		pass(time.Minute)
		before := b.network.dials.Load()
		pass(time.Hour)
		if after := b.network.dials.Load(); after != before {
			t.Errorf("%d dials while nobody waits", after-before)
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(7, 5)
		other := cache.NewObjectName("bank", "formspec-resource-other-pods")
		ctx, hangUp := context.WithCancel(t.Context())
		b.arrive(ctx, 5)
		if _, _, err := b.acquire(t.Context(), shopPods, b.waiter()); !errors.Is(err, errFullHere) {
			t.Errorf("the sixth of one Workspace: %v", err)
		}
		for range 2 {
			go func() { _, _, _ = b.acquire(ctx, other, b.waiter()) }()
		}
		synctest.Wait()
		if _, _, err := b.acquire(t.Context(), other, b.waiter()); !errors.Is(err, errFull) {
			t.Errorf("the eighth of all: %v", err)
		}
		// A Workspace that is awake needs no slot.
		awake := cache.NewObjectName("bank", "formspec-resource-awake-pods")
		b.set(awake, []string{"a:1"})
		b.backends[awake].endpoints["a:1"].proven = true
		if address, _, err := b.acquire(t.Context(), awake, b.waiter()); address != "a:1" || err != nil {
			t.Errorf("another one, awake: %s, %v", address, err)
		}

		hangUp()
		got := b.ended(t)
		if len(got) != 5 || !errors.Is(got[0].err, context.Canceled) || b.waiting != 0 {
			t.Errorf("after all clients have hung up: %v, and %d slots are taken", got, b.waiting)
		}
		b.arrive(t.Context(), 5)
		if b.waiting != 5 {
			t.Errorf("%d wait, want 5", b.waiting)
		}
		b.set(shopPods, []string{"a:1"})
	})
}

func TestAWakeThatIsNotHeardIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		b.arrive(t.Context(), 3)
		pass(25 * time.Second)
		synctest.Wait()
		if wakes := b.wakes.Load(); wakes != 3 {
			t.Errorf("%d wakes in 25 s of silence, want 3", wakes)
		}
		b.asleep.Store(false)
		pass(25 * time.Second)
		if wakes := b.wakes.Load(); wakes != 3 {
			t.Errorf("%d wakes after it was heard, want still 3", wakes)
		}
		b.set(shopPods, []string{"a:1"})
		b.ended(t)

		// Asleep again, so the next one is a new wake.
		b.asleep.Store(true)
		b.set(shopPods, nil)
		b.arrive(t.Context(), 2)
		if wakes := b.wakes.Load(); wakes != 4 {
			t.Errorf("%d wakes, want one more", wakes)
		}
		b.set(shopPods, []string{"a:1"})
	})
}

// A client that gave up, and comes again much later, is not lost on a wake that is long forgotten.
func TestAWakeOfLongAgoDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		ctx, hangUp := context.WithCancel(t.Context())
		b.arrive(ctx, 1)
		hangUp()
		b.ended(t)
		pass(time.Hour)
		b.arrive(t.Context(), 1)
		if wakes := b.wakes.Load(); wakes != 2 {
			t.Errorf("%d wakes, want 2", wakes)
		}
		b.set(shopPods, []string{"a:1"})
	})
}

func TestAClientThatIsFoundGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		w := b.waiter()
		w.present = func() error { return context.Canceled }
		go func() {
			_, cold, err := b.acquire(t.Context(), shopPods, w)
			b.results <- result{"", cold, err}
		}()
		pass(watchEvery)
		if got := b.ended(t); len(got) != 1 || !errors.Is(got[0].err, context.Canceled) || b.waiting != 0 {
			t.Errorf("got %v, and %d slots are taken", got, b.waiting)
		}
	})
}

// A Workspace that sleeps, with nobody waiting, takes up no memory.
func TestSleepingIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		b.network.up.Store(false)
		b.set(shopPods, []string{"a:1"})
		ctx, hangUp := context.WithCancel(t.Context())
		b.arrive(ctx, 1)
		hangUp()
		b.ended(t)
		b.set(shopPods, nil)
		pass(time.Minute) // the dialling ends as well
		if len(b.backends) != 0 {
			t.Errorf("%d Workspaces are remembered", len(b.backends))
		}
		b.set(shopPods, nil)
		if len(b.backends) != 0 {
			t.Errorf("%d Workspaces are remembered", len(b.backends))
		}
	})
}

func TestADeletedWorkspace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(10, 10)
		b.arrive(t.Context(), 2)
		b.forget(shopPods)
		got := b.ended(t)
		if len(got) != 2 || !errors.Is(got[0].err, errGone) || b.waiting != 0 || len(b.backends) != 0 {
			t.Errorf("got %v; %d slots are taken, %d Workspaces known", got, b.waiting, len(b.backends))
		}
		b.forget(shopPods) // nothing to do
	})
}
