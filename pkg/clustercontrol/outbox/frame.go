// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

// A frame is magic, length and CRC-32C of the payload, and the payload: a version, and changes. A change is an operation, an id, and for
// opPut the rest of the entry. Numbers of the header are big-endian, all others varints.
const (
	frameMagic   = "FSO\x01"
	frameHeader  = len(frameMagic) + 8
	frameVersion = 1

	opPut    = 1
	opDelete = 2

	flagKeep   = 1
	flagFrozen = 2
	flagStays  = 4
)

// change is one line of the journal. A nil entry: it is gone.
type change struct {
	id    uint64
	entry *entry
}

func frame(changes []change) []byte {
	b := make([]byte, frameHeader, 4096)
	b = append(b, frameVersion)
	for _, c := range changes {
		if c.entry == nil {
			b = append(b, opDelete)
			b = binary.AppendUvarint(b, c.id)
			continue
		}
		var flags byte
		if c.entry.keep {
			flags |= flagKeep
		}
		if c.entry.frozen {
			flags |= flagFrozen
		}
		if c.entry.stays {
			flags |= flagStays
		}
		b = append(b, opPut)
		b = binary.AppendUvarint(b, c.id)
		b = append(b, flags)
		for _, field := range [][]byte{[]byte(c.entry.lane), []byte(c.entry.key), c.entry.data} {
			b = binary.AppendUvarint(b, uint64(len(field)))
			b = append(b, field...)
		}
	}
	copy(b, frameMagic)
	binary.BigEndian.PutUint32(b[len(frameMagic):], uint32(len(b)-frameHeader))
	binary.BigEndian.PutUint32(b[len(frameMagic)+4:], checksum(b[frameHeader:]))
	return b
}

func checksum(payload []byte) uint32 {
	return crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli))
}

// unframe returns the changes of the frame that content starts with, and how long it is.
func unframe(content []byte) ([]change, int, error) {
	if len(content) < frameHeader || string(content[:len(frameMagic)]) != frameMagic {
		return nil, 0, errors.New("no frame")
	}
	length := int64(binary.BigEndian.Uint32(content[len(frameMagic):]))
	if length > int64(len(content)-frameHeader) {
		return nil, 0, errors.New("a frame that is cut off")
	}
	end := frameHeader + int(length)
	payload := content[frameHeader:end]
	if checksum(payload) != binary.BigEndian.Uint32(content[len(frameMagic)+4:]) {
		return nil, 0, errors.New("a frame with a wrong checksum")
	}
	changes, err := decode(payload)
	return changes, end, err
}

func decode(payload []byte) ([]change, error) {
	if len(payload) == 0 || payload[0] != frameVersion {
		return nil, errors.New("a frame of another version")
	}
	r := reader{rest: payload[1:]}
	var changes []change
	for len(r.rest) > 0 && !r.short {
		op := r.byte()
		c := change{id: r.uvarint()}
		switch op {
		case opDelete:
		case opPut:
			flags := r.byte()
			c.entry = &entry{id: c.id, lane: Lane(r.bytes()), key: string(r.bytes()), data: bytes.Clone(r.bytes()), written: true}
			c.entry.keep, c.entry.frozen, c.entry.stays = flags&flagKeep != 0, flags&flagFrozen != 0, flags&flagStays != 0
		default:
			return nil, errors.New("a frame with an unknown operation")
		}
		changes = append(changes, c)
	}
	if r.short {
		return nil, errors.New("a frame that ends early")
	}
	return changes, nil
}

// reader takes a payload apart. short: there was less than expected.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	value, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.short = true
		return 0
	}
	r.rest = r.rest[n:]
	return value
}

func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.short = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// replay returns the entries that a journal ends with, in order. Where it is damaged it goes on at the next frame that is whole, and says
// what it met first.
func replay(content []byte) (found []*entry, damage string) {
	live := map[uint64]*entry{}
	for at := 0; at < len(content); {
		changes, length, err := unframe(content[at:])
		if err != nil {
			damage = cmp.Or(damage, fmt.Sprintf("%v at byte %d of %d", err, at, len(content)))
			next := bytes.Index(content[at+1:], []byte(frameMagic))
			if next < 0 {
				break
			}
			at += 1 + next
			continue
		}
		for _, c := range changes {
			if c.entry == nil {
				delete(live, c.id)
			} else {
				live[c.id] = c.entry
			}
		}
		at += length
	}
	return slices.SortedFunc(maps.Values(live), func(a, b *entry) int { return cmp.Compare(a.id, b.id) }), damage
}
