// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox

import "iter"

// Shelf is a lane whose entries are not sent: they are kept for the next process, next to what waits and within the same bound.
type Shelf struct {
	outbox *Outbox
	lane   Lane
}

// Shelf returns the shelf of that name. It must be in Options.Evict, before the lanes of what waits to be sent, which is worth more.
func (o *Outbox) Shelf(lane Lane) Shelf { return Shelf{o, lane} }

// Durable says whether the outbox has a directory. If not, there is no next process that a shelf could be for.
func (o *Outbox) Durable() bool { return o.options.Dir != "" }

// Put keeps data under a key, in the place of what the key had. It keeps the slice, which must not change any more. If there is no room it
// does nothing; room is only taken from what gives way no later than the shelf itself.
func (s Shelf) Put(key string, data []byte) {
	s.outbox.put(&entry{lane: s.lane, key: key, data: data, shelved: true})
}

// Remove takes away what is under a key, if anything is.
func (s Shelf) Remove(key string) { s.outbox.Remove(s.lane, key) }

// All are the keys and what they have, oldest first, as it is when the iteration begins: the shelf may be changed meanwhile.
func (s Shelf) All() iter.Seq2[string, []byte] {
	return func(yield func(key string, data []byte) bool) {
		for _, e := range s.outbox.waiting(s.lane) {
			if !yield(e.key, e.data) {
				return
			}
		}
	}
}

// waiting are the entries of a lane, oldest first. Key and data of an entry never change.
func (o *Outbox) waiting(name Lane) []*entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	entries := make([]*entry, 0, len(l.keys))
	for e := l.oldest; e != nil; e = e.next {
		entries = append(entries, e)
	}
	return entries
}
