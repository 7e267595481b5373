// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"
)

const samples = outbox.Lane("samples")

func onShelf(s outbox.Shelf) []string {
	list := []string{}
	for key, data := range s.All() {
		list = append(list, key+"="+string(data))
	}
	return list
}

func TestShelf(t *testing.T) {
	dir := t.TempDir()
	o := open(t, outbox.Options{Dir: dir})
	if !o.Durable() || open(t, outbox.Options{}).Durable() {
		t.Error("an outbox is durable that has a directory")
	}
	s := o.Shelf(samples)
	expect(t, "at first", onShelf(s), []string{})
	for _, key := range []string{"a", "b", "c", "d"} {
		s.Put(key, []byte("1"))
	}
	s.Put("b", []byte("2"))
	s.Remove("c")
	s.Remove("never there")
	o.Add(usage, "a", []byte("u"))
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	s.Put("d", []byte("not flushed"))
	for key := range s.All() {
		s.Remove(key) // while it iterates, and not flushed
	}
	expect(t, "removed", onShelf(s), []string{})
	o.Close()
	o = open(t, outbox.Options{Dir: dir})
	expect(t, "after a restart", onShelf(o.Shelf(samples)), []string{"a=1", "b=2", "d=1"})
	expect(t, "sent", drain(t, o, usage), []string{"u"})
}

// What waits to be sent takes the room of what lies on a shelf, and never the other way round.
func TestShelvesGiveWayFirst(t *testing.T) {
	large := make([]byte, outbox.MinMaxBytes/16)
	o := open(t, outbox.Options{MaxBytes: outbox.MinMaxBytes, Evict: []outbox.Lane{samples, usage}})
	s := o.Shelf(samples)
	for _, key := range []string{"a", "b", "c"} {
		s.Put(key, large)
	}
	o.Add(usage, "1", large)
	o.Add(usage, "2", large)
	o.Add(usage, "3", large)
	keys := []string{}
	for key := range s.All() {
		keys = append(keys, key)
	}
	expect(t, "on the shelf", keys, []string{"b", "c"})
	s.Put("d", make([]byte, 4*len(large)))
	expect(t, "usage", o.Keys(usage), []string{"1", "2", "3"})
}

// A standby has nobody who runs the outbox's own loop: whoever flushes, a disk that fails is said once, and once that it does not any more.
func TestFlushTellsOfADiskThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		underlier, _ := logger.GetSink().(ktesting.Underlier)
		dir := filepath.Join(t.TempDir(), "outbox")
		o, err := outbox.Open(klog.NewContext(t.Context(), logger), outbox.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		for range 2 {
			o.BreakJournal()
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				o.Shelf(samples).Put("a", []byte("1"))
				if o.Flush() == nil {
					t.Error("the disk does not fail")
				}
				<-time.After(15 * time.Second) // of the bubble
			}
			if err := os.Rename(dir+".away", dir); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := o.Flush(); err != nil {
					t.Error(err)
				}
			}
		}
		text := underlier.GetBuffer().String()
		if failed, well := strings.Count(text, "cannot write"), strings.Count(text, "writes to its directory again"); failed != 2 || well != 2 {
			t.Errorf("%d and %d lines for two failures:\n%s", failed, well, text)
		}
	})
}
