// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox

// entry is something that waits, or a frozen envelope. Its data never changes: a newer entry has new bytes.
type entry struct {
	id      uint64 // orders; kept when a newer entry takes its place
	lane    Lane
	key     string
	data    []byte
	keep    bool // gives way to nothing
	stays   bool // when a newer one with its key comes
	shelved bool // takes no room from lanes that give way later than its own
	frozen  bool
	parts   []*entry // of a frozen one: what it was made from; unknown after a restart
	written bool     // may be in the file

	previous, next *entry // in its lane, while it waits
}

func (e *entry) size() int64 { return int64(len(e.lane) + len(e.key) + len(e.data) + overhead) }

// lane is a list of what waits, oldest first, by key as well; and what is frozen.
type lane struct {
	keys           map[string]*entry
	oldest, newest *entry
	frozen         []*entry // at most one, unless a damaged file held more
	bytes          int64
}

// push adds an entry at the end.
func (l *lane) push(e *entry) {
	e.previous, e.next = l.newest, nil
	if l.newest == nil {
		l.oldest = e
	} else {
		l.newest.next = e
	}
	l.newest = e
	l.keys[e.key] = e
}

// unshift adds an entry at the front.
func (l *lane) unshift(e *entry) {
	e.previous, e.next = nil, l.oldest
	if l.oldest == nil {
		l.newest = e
	} else {
		l.oldest.previous = e
	}
	l.oldest = e
	l.keys[e.key] = e
}

// replace puts an entry where another one with the same key is.
func (l *lane) replace(old, e *entry) {
	e.previous, e.next = old.previous, old.next
	if e.previous == nil {
		l.oldest = e
	} else {
		e.previous.next = e
	}
	if e.next == nil {
		l.newest = e
	} else {
		e.next.previous = e
	}
	l.keys[e.key] = e
}

// take takes an entry out.
func (l *lane) take(e *entry) {
	if e.previous == nil {
		l.oldest = e.next
	} else {
		e.previous.next = e.next
	}
	if e.next == nil {
		l.newest = e.previous
	} else {
		e.next.previous = e.previous
	}
	e.previous, e.next = nil, nil
	delete(l.keys, e.key)
}
