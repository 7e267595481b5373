// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox

import "slices"

// Put hands data over, and takes the place in the lane of what waits under the same key. keep: it is never given up for something
// newer. Put keeps data, which must not change any more. False: there is no room, and nothing that may give way.
func (o *Outbox) Put(lane Lane, key string, data []byte, keep bool) bool {
	return o.put(&entry{lane: lane, key: key, data: data, keep: keep})
}

// Add hands data over, unless something waits under the same key: the first one counts. Else it is as Put.
func (o *Outbox) Add(lane Lane, key string, data []byte) bool {
	return o.put(&entry{lane: lane, key: key, data: data, stays: true})
}

func (o *Outbox) put(e *entry) bool {
	var gone []*entry
	fits := o.insert(e, &gone)
	if !fits {
		gone = append(gone, e)
	}
	if o.options.Dropped != nil {
		for _, dropped := range gone {
			o.options.Dropped(dropped.lane, dropped.key)
		}
	}
	return fits
}

func (o *Outbox) insert(e *entry, gone *[]*entry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(e.lane)
	for {
		old, more := l.keys[e.key], e.size()
		if old != nil {
			if old.stays {
				return true
			}
			more -= old.size()
		}
		if more <= 0 || o.bytes+more <= o.limit {
			break
		}
		victim := o.victim(e)
		if victim == nil {
			return false
		}
		o.remove(victim)
		*gone = append(*gone, victim)
	}
	o.place(l, e)
	return true
}

// place puts an entry where the one with its key is, or at the end.
func (o *Outbox) place(l *lane, e *entry) {
	if old := l.keys[e.key]; old != nil {
		o.count(l, -old.size())
		e.id, e.written = old.id, old.written
		l.replace(old, e)
	} else {
		e.id = o.nextID
		o.nextID++
		l.push(e)
	}
	o.entries[e.id] = e
	o.count(l, e.size())
	o.touch(e.id)
}

// victim is what gives way next, for something new or, if that is nil, for a smaller bound.
func (o *Outbox) victim(newer *entry) *entry {
	for _, name := range o.options.Evict {
		for e := o.lane(name).oldest; e != nil; e = e.next {
			if !e.keep {
				return e
			}
		}
		if newer != nil && newer.shelved && newer.lane == name {
			return nil // the next ones are worth more
		}
	}
	return nil
}

func (o *Outbox) remove(e *entry) {
	o.lane(e.lane).take(e)
	o.forget(e)
}

func (o *Outbox) forget(e *entry) {
	delete(o.entries, e.id)
	o.count(o.lane(e.lane), -e.size())
	if e.written {
		o.touch(e.id)
	} else {
		delete(o.dirty, e.id)
	}
}

// Remove takes back what waits under the key, if anything does. What is frozen stays.
func (o *Outbox) Remove(lane Lane, key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.lane(lane).keys[key]; e != nil {
		o.remove(e)
	}
}

// Keys returns the keys under which something waits, oldest first.
func (o *Outbox) Keys(lane Lane) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(lane)
	keys := make([]string, 0, len(l.keys))
	for e := l.oldest; e != nil; e = e.next {
		keys = append(keys, e.key)
	}
	return keys
}

// Unsettled returns what waits in a lane, oldest first, and the envelopes that are frozen. The caller must not change them.
func (o *Outbox) Unsettled(name Lane) (entries, envelopes [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	for e := l.oldest; e != nil; e = e.next {
		entries = append(entries, e.data)
	}
	for _, e := range l.frozen {
		envelopes = append(envelopes, e.data)
	}
	return entries, envelopes
}

// Mark is a point in time for Before.
func (o *Outbox) Mark() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nextID
}

// Before says whether anything in the lane was handed over before the mark and is not settled.
func (o *Outbox) Before(name Lane, mark uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	if l.oldest != nil && l.oldest.id < mark {
		return true
	}
	return slices.ContainsFunc(l.frozen, func(e *entry) bool { return len(e.parts) == 0 || e.parts[0].id < mark })
}

// Freeze returns the bytes to send next in the lane: the envelope that was frozen before, if it is not settled, else a new one. build
// makes that from the oldest entries, at least one and at most so many records and bytes. It is called with the lock held and must
// not call the outbox. Nil: nothing waits. The envelope is on the disk after the next Flush.
func (o *Outbox) Freeze(name Lane, records, bytes int, build func(data [][]byte) ([]byte, error)) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	if len(l.frozen) > 0 {
		return l.frozen[0].data, nil
	}
	var taken []*entry
	var data [][]byte
	for e := l.oldest; e != nil && len(taken) < records; e = e.next {
		if bytes -= len(e.data); bytes < 0 && len(taken) > 0 {
			break
		}
		taken, data = append(taken, e), append(data, e.data)
	}
	if len(taken) == 0 {
		return nil, nil
	}
	body, err := build(data)
	if err != nil {
		return nil, err
	}
	for _, e := range taken {
		o.remove(e)
	}
	e := &entry{id: o.nextID, lane: name, data: body, frozen: true, parts: taken}
	o.nextID++
	l.frozen = append(l.frozen, e)
	o.entries[e.id] = e
	o.count(l, e.size())
	o.touch(e.id)
	return body, nil
}

// Thaw takes back the last Freeze, of an envelope that was not handed to the network after all: what it was made from waits again, in its
// place, unless something newer has come under its key. False: the envelope is from an earlier process, and stays.
func (o *Outbox) Thaw(name Lane) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	if len(l.frozen) == 0 || l.frozen[0].parts == nil {
		return false
	}
	frozen := l.frozen[0]
	o.forget(frozen)
	l.frozen = slices.Delete(l.frozen, 0, 1)
	for _, e := range slices.Backward(frozen.parts) {
		newer := l.keys[e.key]
		if newer != nil && !e.stays {
			continue
		}
		if newer != nil {
			o.remove(newer)
		}
		l.unshift(e)
		o.entries[e.id] = e
		o.count(l, e.size())
		o.touch(e.id)
	}
	return true
}

// Settle forgets the frozen envelope of the lane: it was accepted, or will never be.
func (o *Outbox) Settle(name Lane) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.lane(name)
	if len(l.frozen) > 0 {
		o.forget(l.frozen[0])
		l.frozen = slices.Delete(l.frozen, 0, 1)
	}
}
