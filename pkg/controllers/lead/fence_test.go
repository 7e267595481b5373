// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

func TestFence(t *testing.T) {
	now := time.Now()
	ttl := 12 * time.Second
	for name, test := range map[string]struct {
		prepare func(*Fence, *testingclock.FakeClock)
		open    bool
		fresh   bool
		gone    bool // closed for good
	}{
		"has not opened yet": {
			prepare: func(*Fence, *testingclock.FakeClock) {},
		},
		"is open until its time": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				c.Step(ttl - 1)
			},
			open: true, fresh: true,
		},
		"is closed at its time, before any timer has fired": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				c.Step(ttl)
			},
			gone: true,
		},
		"is extended": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				c.Step(ttl - 1)
				f.extend(now.Add(2 * ttl))
				c.Step(ttl)
			},
			open: true, fresh: true,
		},
		"a renewal that comes too late does not open it again": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				c.Step(ttl)
				f.extend(now.Add(2 * ttl))
			},
			gone: true,
		},
		"a first renewal that took too long does not open it": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				c.Step(ttl)
				f.extend(now.Add(ttl))
			},
			gone: true,
		},
		"is sealed while the lease is still ours": {
			prepare: func(f *Fence, _ *testingclock.FakeClock) {
				f.extend(now.Add(ttl))
				f.seal()
			},
			fresh: true, gone: true,
		},
		"a renewal does not open a sealed one": {
			prepare: func(f *Fence, _ *testingclock.FakeClock) {
				f.seal()
				f.extend(now.Add(ttl))
			},
			gone: true,
		},
		"stays open without a lease": {
			prepare: func(f *Fence, c *testingclock.FakeClock) {
				f.openForGood()
				c.Step(1000 * time.Hour)
			},
			open: true, fresh: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testingclock.NewFakeClock(now)
			f := NewFence(c)
			test.prepare(f, c)
			if err := f.Check(); (err == nil) != test.open || err != nil && !errors.Is(err, ErrFenced) {
				t.Errorf("Check returned %v, want open %t", err, test.open)
			}
			if got := f.fresh(); got != test.fresh {
				t.Errorf("fresh is %t", got)
			}
			if err := f.mayWriteLease(); (err == nil) == test.gone {
				t.Errorf("mayWriteLease returned %v", err)
			}
			select {
			case <-f.Done():
				if !test.gone {
					t.Error("Done is closed")
				}
			default:
				if test.gone {
					t.Error("Done is not closed")
				}
			}
		})
	}
}

func TestWatchClosesTheFenceWithoutAnyRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fence := NewFence(clock.RealClock{})
		start := time.Now()
		fence.extend(start.Add(12 * time.Second))
		go fence.watch()
		<-time.After(10 * time.Second)
		fence.extend(start.Add(22 * time.Second))
		<-fence.Done()
		if took := time.Since(start); took != 22*time.Second {
			t.Errorf("closed after %s, want 22s", took)
		}
	})
}
