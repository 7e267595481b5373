// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// Listener is told what may change a decision about sleep.
type Listener interface {
	// Active is called when the Lease of a Workspace has changed.
	Active(uid types.UID)
	// ActivatorsChanged is called when an activator pod has become ready, or is so no longer.
	ActivatorsChanged()
}

// Tracker watches the Leases and the activator's pods.
type Tracker struct {
	clock     clock.PassiveClock
	leases    cache.TypedSharedIndexInformer[*coordinationv1.Lease]
	slices    *activatorSlices
	health    *health
	listeners []Listener

	mu       sync.Mutex              // of what follows
	seen     map[types.UID]time.Time // the last sign of a request, of those that Of was asked for while all of them were watched
	failures map[types.UID]failure
}

// New returns a tracker, which knows nothing before Start.
func New(ctx context.Context, kube kubernetes.Interface, clk clock.PassiveClock) (*Tracker, error) {
	t := &Tracker{
		clock: clk, health: &health{clock: clk},
		seen: map[types.UID]time.Time{}, failures: map[types.UID]failure{},
	}
	t.leases = newLeaseInformer(kube, t.health)
	if err := t.leases.SetTransform(trimLease); err != nil {
		return nil, fmt.Errorf("trim Leases: %w", err)
	}
	logger := klog.FromContext(ctx)
	_, err := t.leases.AddTypedEventHandler(cache.TypedResourceEventHandlerDetailedFuncs[*coordinationv1.Lease]{
		AddFunc: func(lease *coordinationv1.Lease, initial bool) {
			if !initial { // nobody knows how old the others are; whether they are a wake, each Workspace finds out at the start
				t.changed(types.UID(lease.Name))
			}
		},
		UpdateFunc: func(old, cur *coordinationv1.Lease) {
			if old.ResourceVersion != cur.ResourceVersion {
				t.changed(types.UID(cur.Name))
			}
		},
		DeleteFunc: func(lease cache.DeletedObject[*coordinationv1.Lease]) { t.forget(types.UID(lease.GetName())) },
	}, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return nil, fmt.Errorf("watch Leases: %w", err)
	}
	if t.slices, err = newActivatorSlices(ctx, kube, clk, func() {
		for _, l := range t.listeners {
			l.ActivatorsChanged()
		}
	}); err != nil {
		return nil, fmt.Errorf("watch the activator's EndpointSlices: %w", err)
	}
	return t, nil
}

// Subscribe adds a listener. It must be called before Start.
func (t *Tracker) Subscribe(l Listener) { t.listeners = append(t.listeners, l) }

// Start begins to watch until ctx ends.
func (t *Tracker) Start(ctx context.Context) {
	go t.leases.RunWithContext(ctx)
	t.slices.factory.StartWithContext(ctx)
}

// Synced are done when everything was read for the first time. Before that no Workspace may be looked at: one whose activators are not
// known would be taken for one that has none.
func (t *Tracker) Synced() []cache.DoneChecker {
	return []cache.DoneChecker{t.leases.HasSyncedChecker(), t.slices.registration.HasSyncedChecker()}
}

// Of returns what is known of a Workspace's requests, since it was first asked: only who leads asks, and nobody else knows when requests passed
// the activator by. attempt is what a failed wake depends on: after another one the next is not held back.
func (t *Tracker) Of(uid types.UID, attempt string) workspace.Traffic {
	traffic := workspace.Traffic{Activators: t.slices.ready()}
	if lease := t.lease(uid); lease != nil {
		traffic.Lease = lease.ResourceVersion
	}
	now := t.clock.Now()
	healthySince, healthy := t.health.healthySince()
	t.mu.Lock()
	defer t.mu.Unlock()
	traffic.Backoff = t.failures[uid].left(now, attempt)
	since, known := t.seen[uid]
	if !known {
		t.seen[uid] = now
	}
	if known && healthy && t.leases.HasSynced() && len(traffic.Activators.Addresses) > 0 {
		traffic.Quiet = max(0, now.Sub(latest(since, healthySince, t.slices.since())))
	}
	return traffic
}

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// Touch counts as a request: some may have come that no activator has told of.
func (t *Tracker) Touch(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[uid] = t.clock.Now()
}

// Unwatched says that some requests do not pass the activator. What is known begins when Of is asked next.
func (t *Tracker) Unwatched(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, uid)
}

func (t *Tracker) changed(uid types.UID) {
	t.mu.Lock()
	if _, known := t.seen[uid]; known {
		t.seen[uid] = t.clock.Now()
	}
	t.mu.Unlock()
	for _, l := range t.listeners {
		l.Active(uid)
	}
}

func (t *Tracker) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, uid)
	delete(t.failures, uid)
}

func (t *Tracker) lease(uid types.UID) *coordinationv1.Lease {
	object, found, err := t.leases.GetStore().GetByKey(v1alpha1.ActivatorNamespace + "/" + string(uid))
	lease, ok := object.(*coordinationv1.Lease)
	if err != nil || !found || !ok {
		return nil
	}
	return lease
}

// trimLease keeps what tells that a Lease has changed.
func trimLease(object any) (any, error) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return object, nil // a tombstone, whose object was trimmed before
	}
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: lease.Namespace, Name: lease.Name, UID: lease.UID, ResourceVersion: lease.ResourceVersion, Labels: lease.Labels,
	}}, nil
}
