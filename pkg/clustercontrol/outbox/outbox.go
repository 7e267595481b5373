// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Lane is a queue of its own.
type Lane string

const (
	// DefaultMaxBytes is the bound when Options has none.
	DefaultMaxBytes = 64 << 20
	// MinMaxBytes is the smallest bound: there must be room for an envelope of each lane.
	MinMaxBytes = 8 << 20

	overhead     = 128                    // of an entry, in memory or in a frame
	flushDelay   = 100 * time.Millisecond // from a change to the disk: a burst is one write
	rewriteDelay = 10 * time.Second       // between attempts after the disk has failed
)

// Options of an Outbox.
type Options struct {
	// Dir holds the files, and belongs to this process alone. Empty: nothing outlives the process.
	Dir string
	// MaxBytes bounds the files together, what is put aside included; three eighths of it may wait. 0: DefaultMaxBytes. The same amount
	// may wait in memory when there is no Dir.
	MaxBytes int64
	// Evict names the lanes whose oldest entries make room for new ones, and in which order. A lane that is not named gives up nothing.
	Evict []Lane
	// Dropped is told of each entry that had to make room or found none. It is called without any lock. Nil: nobody.
	Dropped func(lane Lane, key string)
	// Clock paces attempts to write after the disk has failed. Nil: the real one.
	Clock clock.WithTicker
}

// Outbox is safe for concurrent use.
type Outbox struct {
	options Options
	limit   int64 // of what waits
	changed chan struct{}

	logger  klog.Logger
	io      sync.Mutex // held while writing; taken before mu
	journal *journal   // nil: memory only
	failing bool       // the disk; said already

	mu      sync.Mutex
	lanes   map[Lane]*lane
	entries map[uint64]*entry   // waiting and frozen
	dirty   map[uint64]struct{} // changed since the last write
	bytes   int64
	nextID  uint64
}

// Open returns the outbox with what an earlier process has left in Dir. A damaged file is no error: what can be read of it is kept, and
// the file is put aside. It is an error when Dir cannot be used, or another process uses it; the caller may then go on without a Dir.
func Open(ctx context.Context, options Options) (*Outbox, error) {
	if options.MaxBytes == 0 {
		options.MaxBytes = DefaultMaxBytes
	}
	if options.MaxBytes < MinMaxBytes {
		return nil, fmt.Errorf("an outbox of %d bytes is too small, want at least %d", options.MaxBytes, MinMaxBytes)
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	o := &Outbox{
		options: options, limit: options.MaxBytes * 3 / 8, changed: make(chan struct{}, 1), logger: klog.FromContext(ctx),
		lanes: map[Lane]*lane{}, entries: map[uint64]*entry{}, dirty: map[uint64]struct{}{}, nextID: 1,
	}
	if options.Dir == "" {
		return o, nil
	}
	j, found, err := openJournal(options.Dir, options.MaxBytes)
	if err != nil {
		return nil, err
	}
	o.journal = j
	o.restore(found.entries)
	o.shrink()
	if found.damage != "" {
		o.logger.Info("The outbox was damaged; what could be read is kept and will be sent, the file is put aside",
			"damage", found.damage, "kept", len(found.entries), "putAside", j.path(damagedName))
	}
	if err := o.write(); err != nil { // a fresh file, or what is left of a damaged one
		j.close()
		return nil, err
	}
	return o, nil
}

// Run writes changes to the disk until ctx ends, and then what is left.
func (o *Outbox) Run(ctx context.Context) {
	failing := false
	for {
		delay := flushDelay
		if failing {
			delay = rewriteDelay
		} else {
			select {
			case <-o.changed:
			case <-ctx.Done():
			}
		}
		timer := o.options.Clock.NewTimer(delay)
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
		failing = o.Flush() != nil // which says so
		if ctx.Err() != nil {
			return
		}
	}
}

// Close gives the directory free. What was not flushed is lost.
func (o *Outbox) Close() {
	o.io.Lock()
	defer o.io.Unlock()
	if o.journal != nil {
		o.journal.close()
		o.journal = nil
	}
}

// Stats says how much waits in a lane: entries, and frozen envelopes; and the bytes of both.
func (o *Outbox) Stats(name Lane) (entries, envelopes int, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	return len(l.keys), len(l.frozen), l.bytes
}

// lane returns the lane of that name. mu is held, as in all that follow.
func (o *Outbox) lane(name Lane) *lane {
	l := o.lanes[name]
	if l == nil {
		l = &lane{keys: map[string]*entry{}}
		o.lanes[name] = l
	}
	return l
}

func (o *Outbox) touch(id uint64) {
	if o.options.Dir == "" {
		return
	}
	o.dirty[id] = struct{}{}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// count adds to the bytes that wait.
func (o *Outbox) count(l *lane, bytes int64) {
	l.bytes += bytes
	o.bytes += bytes
}

// restore fills an empty outbox.
func (o *Outbox) restore(found []*entry) {
	for _, e := range found { // in the order of their ids
		l := o.lane(e.lane)
		if e.frozen {
			l.frozen = append(l.frozen, e)
		} else if l.keys[e.key] == nil {
			l.push(e)
		} else {
			continue // twice in a damaged file: the first one is as good
		}
		o.entries[e.id] = e
		o.count(l, e.size())
		o.nextID = max(o.nextID, e.id+1)
	}
}

// shrink makes what was found fit, if the bound was larger before.
func (o *Outbox) shrink() {
	for o.bytes > o.limit {
		victim := o.victim(nil)
		if victim == nil {
			return
		}
		o.remove(victim)
		if o.options.Dropped != nil {
			o.options.Dropped(victim.lane, victim.key)
		}
	}
}
