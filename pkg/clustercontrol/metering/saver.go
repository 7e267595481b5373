// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metering

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxSavedBytes bounds the readings that are saved: with slots of five minutes those of some 7,000 pods. The oldest give way.
const maxSavedBytes = 16 << 20

// Shelf keeps bytes under keys over a crash of the process. It may have lost any of them. outbox.Shelf implements it.
type Shelf interface {
	Put(key string, data []byte)
	Remove(key string)
	// All are the keys and what they have, oldest first. The shelf may be changed meanwhile.
	All() iter.Seq2[string, []byte]
}

// Saver keeps what is in a Book for the next process, which then decides the slots that were open as if it had seen all of them. Readings
// are saved once each, in batches that go when no slot needs them any more; a life is saved when it changes. Nil saves nothing. It is not
// safe for concurrent use.
type Saver struct {
	readings, lives Shelf

	batches []batch                 // on the shelf, oldest first
	bytes   int                     // of them
	number  uint64                  // of the last batch, which is its key
	newest  map[types.UID]time.Time // of the readings that were saved of each
	saved   map[types.UID]savedLife // on the shelf
}

type batch struct {
	key    string
	newest time.Time // of its readings, or when they were saved
	bytes  int
}

// NewSaver returns one for two shelves that nobody else uses.
func NewSaver(readings, lives Shelf) *Saver {
	return &Saver{readings: readings, lives: lives, newest: map[types.UID]time.Time{}, saved: map[types.UID]savedLife{}}
}

// Save puts on the shelves what has changed since the last time, and takes away what the book has forgotten. Call it after each round of
// readings.
func (s *Saver) Save(b *Book, now time.Time) {
	if s == nil {
		return
	}
	s.saveLives(b)
	s.saveReadings(b, now) // behind the lives, because their time says up to when the lives were seen
	for len(s.batches) > 1 && (s.bytes > maxSavedBytes || !s.batches[0].newest.After(b.since.Add(-Hold))) {
		s.readings.Remove(s.batches[0].key)
		s.bytes -= s.batches[0].bytes
		s.batches = slices.Delete(s.batches, 0, 1)
	}
}

func (s *Saver) saveLives(b *Book) {
	there := make(map[types.UID]savedLife, len(s.saved))
	for uid, w := range b.workspaces {
		there[uid] = saveWorkspace(w)
	}
	for uid, n := range b.nodes {
		there[uid] = saveNode(n)
	}
	for uid, p := range b.pods {
		there[uid] = savePod(p)
	}
	for uid, l := range there {
		if s.saved[uid] != l {
			s.lives.Put(string(uid), encode(l))
		}
	}
	for uid := range s.saved {
		if _, ok := there[uid]; !ok {
			s.lives.Remove(string(uid))
		}
	}
	s.saved = there
}

func (s *Saver) saveReadings(b *Book, now time.Time) {
	saved, newest := savedReadings{At: now.UnixNano()}, now
	for _, uid := range slices.Sorted(maps.Keys(b.readings)) {
		readings := b.readings[uid]
		from := len(readings)
		for from > 0 && readings[from-1].At.After(s.newest[uid]) {
			from--
		}
		for _, r := range readings[from:] {
			saved.add(uid, r)
			s.newest[uid] = r.At
			newest = later(newest, r.At)
		}
	}
	maps.DeleteFunc(s.newest, func(uid types.UID, _ time.Time) bool { return b.readings[uid] == nil })
	s.number++
	key, data := strconv.FormatUint(s.number, 10), encode(saved)
	s.readings.Put(key, data)
	s.add(batch{key, newest, len(data)})
}

func (s *Saver) add(b batch) {
	s.batches = append(s.batches, b)
	s.bytes += b.bytes
}

// Restore returns a book of what an earlier process has saved, and since when that sampled. Zero: nothing was saved. Call it once, before
// the first Save.
//
// What lived when it was last saved is presumed to have ended by now, or Hold after that time if now is later: usage that nobody saw is not
// invented. What lives still is entered anew, and then never ended. What is of a later time than now was saved by a clock that was wrong, and
// does not count; nor does what cannot be read.
func (s *Saver) Restore(now time.Time) (b *Book, since time.Time) {
	b = NewBook()
	if s == nil {
		return b, time.Time{}
	}
	var seen time.Time // when the last batch was saved
	for key, data := range s.readings.All() {
		saved, err := decodeReadings(data)
		number, notOurs := strconv.ParseUint(key, 10, 64)
		if err != nil || notOurs != nil || savedTime(saved.At).After(now) {
			s.readings.Remove(key)
			continue
		}
		seen, s.number = savedTime(saved.At), max(s.number, number)
		if since.IsZero() {
			since = seen
		}
		s.add(batch{key, s.restore(b, saved, now), len(data)})
	}
	for key, data := range s.lives.All() {
		l, err := decodeLife(data)
		if err != nil || string(l.UID) != key {
			s.lives.Remove(key)
			continue
		}
		s.saved[l.UID] = l
		if life := l.life(); !life.End.IsZero() || !seen.IsZero() {
			l.enter(b, life.presume(seen, now))
		}
	}
	return b, since
}

// restore enters a batch into the book, and returns the newest time in it.
func (s *Saver) restore(b *Book, saved *savedReadings, now time.Time) (newest time.Time) {
	newest = savedTime(saved.At)
	for i, uid := range saved.UIDs {
		r := saved.reading(i)
		if r.At.After(now) {
			continue
		}
		b.Read(uid, r)
		s.newest[uid] = later(s.newest[uid], r.At)
		newest = later(newest, r.At)
	}
	return newest
}

// presume is the life of what is known of from before: it was last seen at a time, and ended by now unless somebody sees it again.
func (l Life) presume(seen, now time.Time) Life {
	if l.End.IsZero() {
		l.End, l.presumed = seen.Add(Hold), true
	}
	if l.End.After(now) {
		l.End = now
	}
	return l
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// encode is of types that can be encoded.
func encode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}
