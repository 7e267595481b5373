// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The files in the directory.
const (
	journalName = "outbox.journal"
	newName     = "outbox.new"     // becomes the journal when it is whole
	damagedName = "outbox.damaged" // the last one that was put aside
	lockName    = "outbox.lock"
)

// rewriteChunk is how much goes into one frame of a new journal.
const rewriteChunk = 1 << 20

// errPaced is returned while the disk has failed a moment ago.
var errPaced = errors.New("the disk has failed a moment ago")

// journal is the file. An eighth of max is for what is put aside, half for the journal, the rest for the new one that replaces it.
type journal struct {
	dir  string
	max  int64
	lock *os.File
	file *os.File // nil: the next write starts a new one
	size int64
	next time.Time // not before, after a failure
}

// contents is what openJournal has found.
type contents struct {
	entries []*entry
	damage  string // empty: none
}

func (j *journal) path(name string) string { return filepath.Join(j.dir, name) }

func openJournal(dir string, limit int64) (*journal, contents, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, contents{}, fmt.Errorf("make the directory of the outbox: %w", err)
	}
	j := &journal{dir: dir, max: limit}
	lock, err := os.OpenFile(j.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, contents{}, fmt.Errorf("open the lock of the outbox: %w", err)
	}
	j.lock = lock
	if err := lockFile(lock); err != nil {
		j.close()
		return nil, contents{}, fmt.Errorf("lock the outbox in %s, which another process seems to use: "+
			"give each replica a directory of its own: %w", dir, err)
	}
	found, err := j.read()
	if err != nil {
		j.close()
		return nil, contents{}, err
	}
	return j, found, nil
}

// read reads the journal, and puts it aside if it is not whole.
func (j *journal) read() (contents, error) {
	var found contents
	content, err := readUpTo(j.path(journalName), j.max)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	found.entries, found.damage = replay(content)
	if err != nil {
		found.damage = cmp.Or(found.damage, "reading failed: "+err.Error())
	}
	if found.damage == "" {
		return found, nil
	}
	if err := os.RemoveAll(j.path(damagedName)); err != nil {
		return contents{}, fmt.Errorf("remove an earlier damaged outbox: %w", err)
	}
	if err := os.Rename(j.path(journalName), j.path(damagedName)); err != nil {
		return contents{}, fmt.Errorf("put a damaged outbox aside: %w", err)
	}
	if info, err := os.Stat(j.path(damagedName)); err == nil && info.Mode().IsRegular() && info.Size() > j.max/8 {
		_ = os.Truncate(j.path(damagedName), j.max/8) // it is kept for people to look at; most of it was understood
	}
	return found, nil
}

func readUpTo(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// append writes one frame to the end. False: there is no file or no room, rewrite instead.
func (j *journal) append(changes []change) (bool, error) {
	if j.file == nil {
		return false, nil
	}
	b := frame(changes)
	if j.size+int64(len(b)) > j.max/2 {
		return false, nil
	}
	if _, err := j.file.Write(b); err != nil {
		return false, err
	}
	j.size += int64(len(b))
	return true, j.file.Sync()
}

// rewrite replaces the journal by one that holds these entries only.
func (j *journal) rewrite(entries []*entry) error {
	file, err := os.OpenFile(j.path(newName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	size, err := writeAll(file, entries)
	if err = errors.Join(err, file.Sync()); err == nil {
		err = os.Rename(j.path(newName), j.path(journalName))
	}
	if err != nil {
		_ = os.Remove(j.path(newName)) // it takes up room that the next attempt may need
		return errors.Join(err, file.Close())
	}
	j.drop()
	j.file, j.size = file, size
	return syncDir(j.dir)
}

func writeAll(file *os.File, entries []*entry) (size int64, err error) {
	var batch []change
	var bytes int64
	flush := func() error {
		b := frame(batch)
		size += int64(len(b))
		batch, bytes = batch[:0], 0
		_, err := file.Write(b)
		return err
	}
	for _, e := range entries {
		batch = append(batch, change{e.id, e})
		if bytes += e.size(); bytes >= rewriteChunk {
			if err := flush(); err != nil {
				return size, err
			}
		}
	}
	return size, flush()
}

// drop closes the file, so that the next write starts a new one.
func (j *journal) drop() {
	if j.file != nil {
		_ = j.file.Close() // what it holds was synced, or is written again
		j.file = nil
	}
}

func (j *journal) close() {
	j.drop()
	_ = j.lock.Close() // which unlocks
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Flush writes all changes to the disk. After an error they are still in memory, and the next Flush but some seconds later writes them. That
// the disk fails, and that it does not any more, is one line in the log each, whoever calls.
func (o *Outbox) Flush() error {
	o.io.Lock()
	defer o.io.Unlock()
	err := o.write()
	switch {
	case err != nil && !o.failing:
		o.logger.Error(err, "The outbox cannot write to its directory: what waits would be lost with this process")
	case err == nil && o.failing:
		o.logger.Info("The outbox writes to its directory again")
	}
	o.failing = err != nil
	return err
}

// write is Flush without a word. io is held, or nobody else has the outbox yet.
func (o *Outbox) write() error {
	j := o.journal
	if j == nil {
		return nil
	}
	now := o.options.Clock.Now()
	if now.Before(j.next) {
		return errPaced
	}
	changes := o.takeDirty()
	if len(changes) == 0 && j.file != nil {
		return nil
	}
	done, err := j.append(changes)
	if err == nil && !done {
		err = j.rewrite(o.all())
	}
	if err != nil {
		j.drop() // its end may be half a frame: everything is written anew
		j.next = now.Add(rewriteDelay)
		return fmt.Errorf("write the outbox: %w", err)
	}
	return nil
}

func (o *Outbox) takeDirty() []change {
	o.mu.Lock()
	defer o.mu.Unlock()
	changes := make([]change, 0, len(o.dirty))
	for id := range o.dirty {
		e := o.entries[id]
		if e != nil {
			e.written = true // or will be, in a moment in which it may be removed
		}
		changes = append(changes, change{id, e})
	}
	clear(o.dirty)
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.id, b.id) })
	return changes
}

func (o *Outbox) all() []*entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.dirty)
	entries := make([]*entry, 0, len(o.entries))
	for _, e := range o.entries {
		e.written = true
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return entries
}
