// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

// entry is one thing that happened. Exactly one field is set.
type entry struct {
	Capture *Capture    `json:"capture,omitempty"`
	Restart *Restart    `json:"restart,omitempty"`
	Key     *TrustedKey `json:"key,omitempty"`
}

// journal is the log on disk. Appended is durable; nothing is ever changed or removed.
type journal struct {
	db        *bolt.DB
	temporary string // to be removed at the end
}

// A function, since a slice cannot be a constant.
func entries() []byte { return []byte("entries") }

// openJournal opens or creates the file. Without a name it is one that is gone after close.
func openJournal(name string) (*journal, error) {
	j := &journal{}
	options := &bolt.Options{Timeout: time.Second} // another process has it
	if name == "" {
		file, err := os.CreateTemp("", "clustercontrol-*.db")
		if err != nil {
			return nil, fmt.Errorf("create a temporary file: %w", err)
		}
		_ = file.Close()
		name, j.temporary = file.Name(), file.Name()
		options.NoSync = true // nobody opens it again
	}
	db, err := bolt.Open(name, 0o600, options)
	if err != nil {
		return nil, fmt.Errorf("open %s (is another server using it?): %w", name, err)
	}
	j.db = db
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(entries())
		return err
	})
	if err != nil {
		_ = j.close()
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	return j, nil
}

func (j *journal) close() error {
	err := j.db.Close()
	if j.temporary != "" {
		_ = os.Remove(j.temporary)
	}
	return err
}

// append writes an entry and returns its number, from 1 on.
func (j *journal) append(e entry) (uint64, error) {
	value, err := json.Marshal(e)
	if err != nil {
		return 0, fmt.Errorf("encode an entry: %w", err)
	}
	var id uint64
	err = j.db.Update(func(tx *bolt.Tx) (err error) {
		bucket := tx.Bucket(entries())
		if id, err = bucket.NextSequence(); err != nil {
			return err
		}
		return bucket.Put(binary.BigEndian.AppendUint64(nil, id), value)
	})
	if err != nil {
		return 0, fmt.Errorf("write to the log: %w", err)
	}
	return id, nil
}

// replay calls a function for every entry, oldest first, until it fails.
func (j *journal) replay(each func(id uint64, e entry) error) error {
	return j.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(entries()).ForEach(func(key, value []byte) error {
			id := binary.BigEndian.Uint64(key)
			var e entry
			if err := json.Unmarshal(value, &e); err != nil {
				return fmt.Errorf("entry %d of the log: %w", id, err)
			}
			return each(id, e)
		})
	})
}
