// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	testingclock "k8s.io/utils/clock/testing"
)

// After a stop between its read and its write of the lease, a process must not write what is another's by then.
func TestLeaseIsNotWrittenOnceItsTimeIsUp(t *testing.T) {
	c := testingclock.NewFakeClock(time.Now())
	written := &countedLock{}
	lock := &stampedLock{
		Interface: written,
		fence:     NewFence(c),
		timing:    Timing{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
	}
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	c.Step(12*time.Second - 1)
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Fatal(err)
	}
	c.Step(12 * time.Second)
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v", err)
	}
	if written.times != 2 {
		t.Errorf("written %d times, want 2", written.times)
	}
}

type countedLock struct {
	resourcelock.Interface
	times int
}

func (l *countedLock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	l.times++
	return nil
}

func (l *countedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Create(ctx, record)
}
