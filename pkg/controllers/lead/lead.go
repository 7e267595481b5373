// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// ErrLost says that the lease was lost, or may have been. The process must end.
var ErrLost = errors.New("lost the lease")

// Timing is the pace of the election. The zero value is not valid.
type Timing struct {
	// LeaseDuration is how long another replica waits, after the last renewal that it saw, before it takes the lease.
	// It is stored in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is how long a renewal is tried before the lease counts as lost.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals, and between two tries.
	RetryPeriod time.Duration
}

// TTL is how long the work may go on after the last successful renewal was sent.
func (t Timing) TTL() time.Duration { return t.RenewDeadline + t.RetryPeriod }

// Validate returns an error that says which times do not fit together.
func (t Timing) Validate() error {
	switch {
	case t.RetryPeriod <= 0:
		return errors.New("the retry period must be positive")
	case t.LeaseDuration%time.Second != 0:
		return fmt.Errorf("the lease duration %s must be whole seconds", t.LeaseDuration)
	case float64(t.RenewDeadline) <= leaderelection.JitterFactor*float64(t.RetryPeriod):
		return fmt.Errorf("the renew deadline %s must be more than %g times the retry period %s",
			t.RenewDeadline, leaderelection.JitterFactor, t.RetryPeriod)
	case t.LeaseDuration <= t.TTL():
		return fmt.Errorf("the lease duration %s must be more than the renew deadline and the retry period together, %s",
			t.LeaseDuration, t.TTL())
	}
	return nil
}

// Config is what [Run] needs.
type Config struct {
	// Lock is the lease, reached by a client that is not fenced. Nil turns the election off: this process leads from the start.
	Lock resourcelock.Interface
	// Name labels the election's metrics.
	Name string
	// Timing is not looked at without a Lock.
	Timing Timing
	// Fence guards the clients that the work writes with. It is used for one Run only.
	Fence *Fence
}

// Run waits for the lease and then calls run once. It tries until ctx ends, however long that is.
//
// When ctx ends, run's context ends too. The lease is renewed until run has returned, which must be in bounded time, and is released
// after the fence has closed. Run then returns what run returned, or nil if run was never called.
//
// When the lease is lost, the fence closes, run's context ends with the cause ErrLost, and Run returns ErrLost at once. It does not
// wait for run: another replica may lead by the time that a blocked call returns.
func Run(ctx context.Context, cfg Config, run func(ctx context.Context) error) error {
	if cfg.Lock == nil {
		cfg.Fence.openForGood()
		defer cfg.Fence.seal()
		return run(ctx)
	}
	e, err := startElection(ctx, cfg)
	if err != nil {
		return err
	}
	defer e.stop()
	select {
	case <-ctx.Done():
		e.resign(ctx)
		return nil
	case <-e.won:
	}

	runCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go cfg.Fence.watch()
	ran := make(chan error, 1)
	go func() { ran <- run(runCtx) }()
	select {
	case err := <-ran:
		e.resign(ctx)
		return err
	case <-cfg.Fence.Done(): // whether renewing has failed or is stuck
		stop(ErrLost)
		return ErrLost
	}
}

type election struct {
	lock  *stampedLock
	stop  context.CancelFunc
	won   chan struct{} // closed when this process leads
	ended chan struct{} // closed when the lease is no longer acquired or renewed
}

// startElection takes part in the election until it is stopped or loses: not until ctx ends, since the drain needs the lease.
func startElection(ctx context.Context, cfg Config) (*election, error) {
	if err := cfg.Timing.Validate(); err != nil {
		return nil, err
	}
	e := &election{
		lock:  &stampedLock{Interface: cfg.Lock, fence: cfg.Fence, timing: cfg.Timing},
		won:   make(chan struct{}),
		ended: make(chan struct{}),
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          e.lock,
		Name:          cfg.Name,
		LeaseDuration: cfg.Timing.LeaseDuration,
		RenewDeadline: cfg.Timing.RenewDeadline,
		RetryPeriod:   cfg.Timing.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(e.won) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the election: %w", err)
	}
	electionCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = cancel
	go func() {
		defer close(e.ended)
		elector.Run(electionCtx)
	}()
	return e, nil
}

// resign leaves the election and releases the lease if this process holds it.
func (e *election) resign(ctx context.Context) {
	e.stop()
	e.lock.fence.seal() // whatever has not drained must not write once another replica leads
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.lock.timing.RenewDeadline)
	defer cancel()
	released := make(chan error, 1)
	go func() {
		<-e.ended
		released <- e.lock.release(ctx)
	}()
	var err error
	select {
	case err = <-released:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		klog.FromContext(ctx).Info("Could not release the lease, it expires by itself", "lock", e.lock.Describe(), "err", err)
	}
}
