// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
)

// stampedLock extends the fence at each successful write of the lease, all of which are ours.
type stampedLock struct {
	resourcelock.Interface
	fence  *Fence
	timing Timing
}

// Get implements resourcelock.Interface.
func (l *stampedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := l.timing.limit(ctx)
	defer cancel()
	return l.Interface.Get(ctx)
}

// Create implements resourcelock.Interface.
func (l *stampedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.stamp(ctx, func(ctx context.Context) error { return l.Interface.Create(ctx, record) })
}

// Update implements resourcelock.Interface.
func (l *stampedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.stamp(ctx, func(ctx context.Context) error { return l.Interface.Update(ctx, record) })
}

// stamp counts from before the request is sent: the others count from after it was stored, so they never end first.
func (l *stampedLock) stamp(ctx context.Context, send func(context.Context) error) error {
	if err := l.fence.mayWriteLease(); err != nil {
		return err
	}
	ctx, cancel := l.timing.limit(ctx)
	defer cancel()
	sent := l.fence.clock.Now()
	if err := send(ctx); err != nil {
		return err
	}
	l.fence.extend(sent.Add(l.timing.TTL()))
	return nil
}

// limit ends a request for the lease in time for a second one. client-go sets no limit at all while it tries to acquire.
func (t Timing) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.RenewDeadline/2)
}

// release gives the lease up if it is still ours. client-go's own release goes by what it last observed and not by what it has just
// read, so after an outage it can take the lease away from the replica that leads by then.
func (l *stampedLock) release(ctx context.Context) error {
	if !l.fence.fresh() {
		return nil
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		record, _, err := l.Get(ctx)
		if err != nil {
			return fmt.Errorf("read %s: %w", l.Describe(), err)
		}
		if record.HolderIdentity != l.Identity() || !l.fence.fresh() {
			return nil
		}
		now := metav1.NewTime(l.fence.clock.Now())
		return l.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions:    record.LeaderTransitions,
			LeaseDurationSeconds: 1,
			RenewTime:            now,
			AcquireTime:          now,
		})
	})
}
