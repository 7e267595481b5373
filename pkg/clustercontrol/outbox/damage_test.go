// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"
)

// written returns a journal of five writes of one record each, and where each frame ends.
func written(t *testing.T) (content []byte, ends []int) {
	t.Helper()
	dir := t.TempDir()
	o := open(t, outbox.Options{Dir: dir})
	name := filepath.Join(dir, "outbox.journal")
	for i := range 5 {
		o.Add(usage, strconv.Itoa(i), fmt.Append(nil, "u", i))
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(content))
	}
	o.Close()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content, ends
}

// reopen opens an outbox on a journal of that content, and returns what is in it.
func reopen(t *testing.T, content []byte) (kept []string, putAside bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "outbox.journal"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := outbox.Open(t.Context(), outbox.Options{Dir: dir})
	if err != nil {
		t.Fatalf("a damaged file stops the operator: %v", err)
	}
	kept = o.Keys(usage)
	o.Add(usage, "new", []byte("new"))
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	o.Close()
	aside, err := os.ReadFile(filepath.Join(dir, "outbox.damaged"))
	if putAside = err == nil; putAside && !bytes.Equal(aside, content) {
		t.Error("what was put aside is not what was there")
	}
	o, err = outbox.Open(t.Context(), outbox.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if again := o.Keys(usage); !slices.Equal(again, append(slices.Clone(kept), "new")) {
		t.Errorf("the process after that finds %v, want %v and the new one", again, kept)
	}
	return kept, putAside
}

func TestTornAtEveryByte(t *testing.T) {
	content, ends := written(t)
	for length := range content {
		kept, putAside := reopen(t, content[:length])
		whole := 0
		for whole < len(ends) && ends[whole] <= length {
			whole++
		}
		if len(kept) != whole {
			t.Fatalf("cut to %d bytes: kept %v, want the first %d", length, kept, whole)
		}
		if boundary := length == 0 || length == outbox.EmptyFrame || slices.Contains(ends, length); putAside == boundary {
			t.Fatalf("cut to %d bytes: put aside is %t", length, putAside)
		}
	}
}

func TestOneWrongByteCostsOneFrame(t *testing.T) {
	content, _ := written(t)
	for at := range content {
		damaged := bytes.Clone(content)
		damaged[at] ^= 0x20
		kept, putAside := reopen(t, damaged)
		if len(kept) < 4 {
			t.Fatalf("byte %d is wrong: only %v are kept", at, kept)
		}
		if !putAside {
			t.Fatalf("byte %d is wrong and nobody has noticed", at)
		}
	}
}

func TestWhatIsNoJournalIsPutAside(t *testing.T) {
	for name, content := range map[string][]byte{
		"text":  []byte(strings.Repeat("not an outbox\n", 1000)),
		"zeros": make([]byte, 100_000),
		"magic": []byte(strings.Repeat("FSO\x01", 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			if kept, putAside := reopen(t, content); len(kept) != 0 || !putAside {
				t.Errorf("kept %v, put aside %t", kept, putAside)
			}
		})
	}
	t.Run("a directory", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "outbox.journal", "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		open(t, outbox.Options{Dir: dir})
		if _, err := os.Stat(filepath.Join(dir, "outbox.damaged", "x")); err != nil {
			t.Error(err)
		}
	})
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("FSO\x01\x00\x00\x00\x01\x00\x00\x00\x00\x01"))
	f.Add([]byte("FSO\x01\xff\xff\xff\xff\x00\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "outbox.journal"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := outbox.Open(t.Context(), outbox.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		o.Close()
	})
}

// A disk that is full for a while costs nothing that still waits when it is not any more.
func TestDiskThatFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "outbox")
		o := open(t, outbox.Options{Dir: dir})
		away := dir + ".away"
		o.Add(usage, "1", []byte("1"))
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		o.BreakJournal()
		if err := os.Rename(dir, away); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			o.Put(statuses, "s", strconv.AppendInt(nil, int64(i), 10), false)
			if err := o.Flush(); err == nil || (i > 0) != errors.Is(err, outbox.ErrPaced) {
				t.Fatalf("attempt %d returned %v", i, err)
			}
		}
		if err := os.Rename(away, dir); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second) // of the bubble
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		o.Close()
		o = open(t, outbox.Options{Dir: dir})
		expect(t, "usage", drain(t, o, usage), []string{"1"})
		expect(t, "statuses", drain(t, o, statuses), []string{"999"})
	})
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Open(t.Context(), outbox.Options{Dir: file}); err == nil || errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
}
