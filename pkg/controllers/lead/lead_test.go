// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/controllers/lead"
)

// nextTry is the longest time between two tries of a standby: client-go adds up to 1.2 periods to each.
const nextTry = 4400 * time.Millisecond

var timing = lead.Timing{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}

// replica is one process that takes part in the election. All of these tests run in a bubble, where time is fake.
type replica struct {
	fence   *lead.Fence
	signal  context.CancelFunc
	started chan time.Time // when run was called
	stopped chan error     // why run's context ended
	result  chan error     // what Run returned
	ended   time.Time      // when Run returned; read it after result
	drained chan struct{}  // closed when run returns
}

func start(t *testing.T, lock resourcelock.Interface, drain time.Duration) *replica {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	r := &replica{
		fence:   lead.NewFence(clock.RealClock{}),
		signal:  cancel,
		started: make(chan time.Time, 1),
		stopped: make(chan error, 1),
		result:  make(chan error, 1),
		drained: make(chan struct{}),
	}
	cfg := lead.Config{Lock: lock, Name: "test", Timing: timing, Fence: r.fence}
	go func() {
		err := lead.Run(ctx, cfg, func(ctx context.Context) error {
			r.started <- time.Now()
			<-ctx.Done()
			r.stopped <- context.Cause(ctx)
			<-time.After(drain)
			close(r.drained)
			return nil
		})
		r.ended = time.Now()
		r.result <- err
	}()
	return r
}

// wait passes fake time.
func wait(d time.Duration) { <-time.After(d) }

// leave signals a replica that still takes part, and waits for it.
func (r *replica) leave(t *testing.T) {
	t.Helper()
	r.signal()
	if err := <-r.result; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func (r *replica) leads() bool { return r.fence.Check() == nil }

func TestLeaseIsReleasedAfterTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &leaseServer{}
		old := start(t, server.client("old"), 40*time.Second)
		<-old.started
		standby := start(t, server.client("standby"), 0)
		wait(time.Minute)

		old.signal()
		if cause := <-old.stopped; errors.Is(cause, lead.ErrLost) {
			t.Errorf("run was stopped by %v, want the signal", cause)
		}
		wait(39 * time.Second) // longer than the lease lasts: it is renewed
		if !old.leads() || server.holder() != "old" {
			t.Fatalf("while draining: fence %v, lease held by %q", old.fence.Check(), server.holder())
		}
		if err := <-old.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
		select {
		case <-old.drained:
		default:
			t.Error("Run returned before the drain was over")
		}
		if old.leads() {
			t.Error("the fence is open after the release")
		}
		if got := server.holder(); got != "" {
			t.Errorf("the lease is held by %q, want it released", got)
		}
		if took := (<-standby.started).Sub(old.ended); took > nextTry {
			t.Errorf("the standby took over %s after the release, want the next try", took)
		}
		standby.leave(t)
	})
}

func TestWorkEndsBeforeAnotherReplicaCanLead(t *testing.T) {
	for name, test := range map[string]struct{ request, reply func(context.Context) error }{
		"renewals do not arrive":           {isLost, arrives},
		"answers do not arrive":            {arrives, isLost},
		"renewals fail at once":            {func(context.Context) error { return errors.New("refused") }, arrives},
		"a renewal hangs, whatever we do":  {nil, arrives},
		"the answer hangs, whatever we do": {arrives, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				defer close(end)
				if test.request == nil {
					test.request = hangs(end)
				}
				if test.reply == nil {
					test.reply = hangs(end)
				}
				server := &leaseServer{}
				client := server.client("old")
				old := start(t, client, time.Hour) // the work is stuck, too
				<-old.started
				standby := start(t, server.client("standby"), 0)
				wait(time.Minute + time.Second) // between two renewals
				renewals := server.writesOf("old")
				client.network(test.request, test.reply)

				err := <-old.result
				if !errors.Is(err, lead.ErrLost) {
					t.Errorf("Run returned %v, want ErrLost", err)
				}
				if cause := <-old.stopped; !errors.Is(cause, lead.ErrLost) {
					t.Errorf("run was stopped by %v, want ErrLost", cause)
				}
				if old.leads() {
					t.Error("the fence is open")
				}
				last := renewals[len(renewals)-1]
				if after := old.ended.Sub(last); after > timing.TTL() {
					t.Errorf("Run returned %s after the last renewal, want at most %s", after, timing.TTL())
				}
				if took := <-standby.started; !took.After(old.ended) {
					t.Errorf("the standby led at %s, before the old leader ended at %s", took, old.ended)
				}
				wait(time.Minute)
				if !standby.leads() || server.holder() != "standby" {
					t.Errorf("the standby does not lead: the lease is held by %q", server.holder())
				}
				standby.leave(t)
				<-old.drained
			})
		})
	}
}

func TestSlowRenewalsCountFromWhenTheyWereSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &leaseServer{}
		client := server.client("a")
		a := start(t, client, 0)
		<-a.started
		client.network(takes(2*time.Second), takes(2*time.Second))
		wait(10 * time.Minute)
		if !a.leads() {
			t.Fatal("a renewal that takes 4 s lost the lease")
		}
		client.network(isLost, arrives)
		renewals := server.writesOf("a") // each sent 2 s before
		if err := <-a.result; !errors.Is(err, lead.ErrLost) {
			t.Errorf("Run returned %v, want ErrLost", err)
		}
		if end := renewals[len(renewals)-1].Add(-2 * time.Second).Add(timing.TTL()); a.ended.After(end) {
			t.Errorf("ended %s late", a.ended.Sub(end))
		}
	})
}

func TestStandby(t *testing.T) {
	t.Run("stops at once and leaves the lease alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := &leaseServer{}
			leader := start(t, server.client("leader"), 0)
			<-leader.started
			standby := start(t, server.client("standby"), 0)
			wait(time.Minute)
			before := time.Now()
			standby.signal()
			if err := <-standby.result; err != nil {
				t.Errorf("Run returned %v", err)
			}
			if took := standby.ended.Sub(before); took > 0 {
				t.Errorf("stopping took %s", took)
			}
			if len(standby.started) > 0 {
				t.Error("run was called")
			}
			if !leader.leads() || server.holder() != "leader" {
				t.Errorf("the lease is held by %q", server.holder())
			}
			leader.leave(t)
		})
	})
	t.Run("stops at once while the API server is out of reach", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := (&leaseServer{}).client("standby")
			client.network(isLost, arrives)
			standby := start(t, client, 0)
			wait(time.Second)
			before := time.Now()
			standby.signal()
			if err := <-standby.result; err != nil {
				t.Errorf("Run returned %v", err)
			}
			if took := standby.ended.Sub(before); took > 0 {
				t.Errorf("stopping took %s", took)
			}
		})
	})
	t.Run("never gives up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			client := (&leaseServer{}).client("standby")
			client.network(isLost, arrives)
			standby := start(t, client, 0)
			wait(time.Hour)
			client.network(func(context.Context) error { return errors.New("refused") }, arrives)
			wait(time.Hour)
			if standby.leads() {
				t.Error("the fence is open without a lease")
			}
			client.network(arrives, arrives)
			back := time.Now()
			if took := (<-standby.started).Sub(back); took > nextTry {
				t.Errorf("leading took %s", took)
			}
			standby.leave(t)
		})
	})
}

func TestALeaseTakenByAnotherIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &leaseServer{}
		old := start(t, server.client("old"), time.Second)
		<-old.started
		old.signal()
		wait(time.Second / 2) // before the next renewal
		server.edit("other")
		if err := <-old.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
		if got := server.holder(); got != "other" {
			t.Errorf("the lease is held by %q, want other", got)
		}
	})
}

func TestAReleaseThatHangsDoesNotHoldTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		client := (&leaseServer{}).client("a")
		a := start(t, client, 0)
		<-a.started
		client.network(hangs(end), arrives)
		a.signal()
		signalled := time.Now()
		if err := <-a.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
		if took := a.ended.Sub(signalled); took > timing.RenewDeadline {
			t.Errorf("Run returned after %s", took)
		}
	})
}

func TestRunsErrorIsReturned(t *testing.T) {
	failure := errors.New("broken")
	for name, lock := range map[string]func(*leaseServer) resourcelock.Interface{
		"with a lease":    func(s *leaseServer) resourcelock.Interface { return s.client("a") },
		"without a lease": func(*leaseServer) resourcelock.Interface { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &leaseServer{}
				fence := lead.NewFence(clock.RealClock{})
				_, ctx := ktesting.NewTestContext(t)
				err := lead.Run(ctx, lead.Config{Lock: lock(server), Timing: timing, Fence: fence}, func(context.Context) error {
					if err := fence.Check(); err != nil {
						t.Errorf("while leading: %v", err)
					}
					return failure
				})
				if !errors.Is(err, failure) {
					t.Errorf("got %v", err)
				}
				if fence.Check() == nil {
					t.Error("the fence is open at the end")
				}
				if got := server.holder(); got != "" {
					t.Errorf("the lease is held by %q", got)
				}
			})
		})
	}
}

func TestTimingValidate(t *testing.T) {
	s := time.Second
	for name, test := range map[string]struct {
		timing lead.Timing
		want   string // empty: valid
	}{
		"the default":                          {timing, ""},
		"the zero value":                       {lead.Timing{}, "retry period"},
		"a lease that is not in seconds":       {lead.Timing{15*s + 1, 10 * s, 2 * s}, "whole seconds"},
		"no time for a second try":             {lead.Timing{15 * s, 2 * s, 2 * s}, "renew deadline"},
		"work goes on as long as the lease":    {lead.Timing{12 * s, 10 * s, 2 * s}, "lease duration"},
		"work ends a second before the lease":  {lead.Timing{13 * s, 10 * s, 2 * s}, ""},
		"a renew deadline beyond the lease":    {lead.Timing{10 * s, 20 * s, 2 * s}, "lease duration"},
		"a retry period that is not positive":  {lead.Timing{10 * s, 5 * s, -s}, "retry period"},
		"a lease of no time, with other times": {lead.Timing{0, 5 * s, s}, "lease duration"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.timing.Validate()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
