// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restarts hands the restart requests of Cluster Control over to the loop of Workspaces.
//
// A request is done with once the Workspace's status holds it: from there it survives whatever happens to this process. Until then the
// desk has it, and the cursor from which requests are read does not move.
package restarts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// patience is how long Take waits until statuses hold what it was given. Each takes a write; many wait in one queue.
const patience = 30 * time.Second

// Watcher is a loop of Workspaces.
type Watcher interface {
	// RestartRequested looks at a Workspace again. False: the loop has no such Workspace.
	RestartRequested(key cache.ObjectName) bool
}

// Desk holds the newest request of each Workspace whose status does not hold it yet. It is safe for concurrent use. Nil has no requests.
type Desk struct {
	watchers []Watcher

	mu       sync.Mutex
	waiting  map[cache.ObjectName]workspace.Restart
	recorded chan struct{} // closed and replaced when a request is done with
}

// NewDesk returns an empty desk.
func NewDesk() *Desk {
	return &Desk{waiting: map[cache.ObjectName]workspace.Restart{}, recorded: make(chan struct{})}
}

// Subscribe adds a loop. It must be called before the desk is used.
func (d *Desk) Subscribe(w Watcher) {
	if d != nil {
		d.watchers = append(d.watchers, w)
	}
}

// Newest is the request that waits for a Workspace. Nil: none does.
func (d *Desk) Newest(key cache.ObjectName) *workspace.Restart {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, ok := d.waiting[key]; ok {
		return &r
	}
	return nil
}

// Recorded says that a Workspace's status holds the cursor, so that older requests are done with.
func (d *Desk) Recorded(key cache.ObjectName, cursor int64) {
	d.drop(key, func(r workspace.Restart) bool { return r.Cursor <= cursor })
}

// Gone says that there is no such Workspace: what starts next under its name runs the newest artifact anyway.
func (d *Desk) Gone(key cache.ObjectName) {
	d.drop(key, func(workspace.Restart) bool { return true })
}

func (d *Desk) drop(key cache.ObjectName, done func(workspace.Restart) bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, ok := d.waiting[key]; ok && done(r) {
		delete(d.waiting, key)
		close(d.recorded)
		d.recorded = make(chan struct{})
	}
}

// Take gives each request to the loop that has its Workspace, and waits until the statuses hold them. Requests for Workspaces that do not
// exist are left out. It returns an error when some status could not be written within half a minute: then the same must be asked for
// again, and those which are recorded already change nothing. It is a clustercontrol.Take.
func (d *Desk) Take(ctx context.Context, batch clustercontrol.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	given := map[cache.ObjectName]bool{}
	if batch.Cursor < 1 { // a status could not tell it from none
		return nil
	}
	for _, item := range batch.Items { // in the order of the server: the last one for a Workspace counts
		key := cache.NewObjectName(item.Namespace, item.Workspace)
		d.put(key, workspace.Restart{Hash: item.BinaryHash, Version: item.Version, Cursor: batch.Cursor})
		given[key] = true
	}
	for key := range given {
		if !d.wake(key) {
			d.Gone(key)
		}
	}
	for {
		left, recorded := d.left(given, batch.Cursor)
		if left == 0 {
			return nil
		}
		select {
		case <-recorded:
		case <-ctx.Done():
			return fmt.Errorf("wait until %d of %d restart requests are in the status of their Workspaces: %w", left, len(given), context.Cause(ctx))
		}
	}
}

func (d *Desk) put(key cache.ObjectName, r workspace.Restart) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[key].Cursor <= r.Cursor {
		d.waiting[key] = r
	}
}

func (d *Desk) wake(key cache.ObjectName) (found bool) {
	for _, w := range d.watchers {
		found = w.RestartRequested(key) || found
	}
	return found
}

// left counts the requests up to a cursor that are not recorded yet.
func (d *Desk) left(keys map[cache.ObjectName]bool, cursor int64) (left int, recorded <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range keys {
		if r, ok := d.waiting[key]; ok && r.Cursor <= cursor {
			left++
		}
	}
	return left, d.recorded
}
