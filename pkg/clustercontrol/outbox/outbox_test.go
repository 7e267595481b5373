// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"
)

const (
	usage    = outbox.Lane("metering")
	statuses = outbox.Lane("workspace-status")
	ids      = outbox.Lane("register")
)

func open(t *testing.T, options outbox.Options) *outbox.Outbox {
	t.Helper()
	o, err := outbox.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// join is an envelope that shows what is in it.
func join(data [][]byte) ([]byte, error) { return bytes.Join(data, []byte(",")), nil }

func freeze(t *testing.T, o *outbox.Outbox, lane outbox.Lane, records int) string {
	t.Helper()
	body, err := o.Freeze(lane, records, 1<<20, join)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// drain sends everything, one record an envelope.
func drain(t *testing.T, o *outbox.Outbox, lane outbox.Lane) []string {
	t.Helper()
	var sent []string
	for {
		body := freeze(t, o, lane, 1)
		if body == "" {
			return sent
		}
		sent = append(sent, body)
		o.Settle(lane)
	}
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestPutTakesThePlaceOfTheSameKey(t *testing.T) {
	o := open(t, outbox.Options{})
	o.Put(statuses, "a", []byte("a1"), false)
	o.Put(statuses, "b", []byte("b1"), false)
	o.Put(statuses, "a", []byte("a2, which is longer"), false)
	expect(t, "sent", drain(t, o, statuses), []string{"a2, which is longer", "b1"})
}

func TestAddKeepsTheFirst(t *testing.T) {
	o := open(t, outbox.Options{})
	o.Add(usage, "k", []byte("first"))
	o.Add(usage, "k", []byte("second"))
	expect(t, "sent", drain(t, o, usage), []string{"first"})
}

func TestLanesDoNotMeet(t *testing.T) {
	o := open(t, outbox.Options{})
	o.Put(statuses, "k", []byte("status"), false)
	o.Put(ids, "k", []byte("id"), false)
	o.Remove(ids, "k")
	expect(t, "ids", drain(t, o, ids), []string{})
	expect(t, "statuses", drain(t, o, statuses), []string{"status"})
}

func TestFrozenStaysUntilItIsSettled(t *testing.T) {
	o := open(t, outbox.Options{})
	o.Put(statuses, "a", []byte("a1"), false)
	expect(t, "first", freeze(t, o, statuses, 10), "a1")
	o.Put(statuses, "a", []byte("a2"), false)
	o.Put(statuses, "b", []byte("b1"), false)
	o.Remove(statuses, "b")
	expect(t, "again", freeze(t, o, statuses, 10), "a1")
	o.Settle(statuses)
	expect(t, "next", freeze(t, o, statuses, 10), "a2")
}

// An envelope that was never handed over becomes records again, in their places.
func TestThaw(t *testing.T) {
	dir := t.TempDir()
	o := open(t, outbox.Options{Dir: dir})
	flush := func() {
		t.Helper()
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if o.Thaw(statuses) {
		t.Error("nothing was frozen")
	}
	for _, key := range []string{"a", "b", "c"} {
		o.Put(statuses, key, []byte(key+"1"), false)
		o.Add(usage, key, []byte(key+"1"))
	}
	flush()
	freeze(t, o, statuses, 2)
	freeze(t, o, usage, 2)
	flush()
	o.Put(statuses, "b", []byte("b2"), false)
	o.Add(usage, "b", []byte("b2"))
	_, _, before := o.Stats(statuses)
	if !o.Thaw(statuses) || !o.Thaw(usage) {
		t.Fatal("it stays frozen")
	}
	if _, envelopes, after := o.Stats(statuses); envelopes != 0 || after >= before+200 {
		t.Errorf("%d envelopes, %d bytes, were %d", envelopes, after, before)
	}
	flush()
	expect(t, "keys", o.Keys(statuses), []string{"a", "c", "b"})
	o.Close()
	o = open(t, outbox.Options{Dir: dir})
	expect(t, "statuses after a restart", drain(t, o, statuses), []string{"a1", "c1", "b2"})
	expect(t, "usage after a restart", drain(t, o, usage), []string{"a1", "b1", "c1"})

	o.Add(usage, "d", []byte("d"))
	frozen := freeze(t, o, usage, 1)
	flush()
	o.Close()
	o = open(t, outbox.Options{Dir: dir})
	if o.Thaw(usage) || freeze(t, o, usage, 1) != frozen {
		t.Error("the envelope of an earlier process was thawed: nobody knows whether it was sent")
	}
}

func TestFreezeTakesTheOldestWithinItsBounds(t *testing.T) {
	o := open(t, outbox.Options{})
	for i := range 5 {
		o.Add(usage, strconv.Itoa(i), fmt.Append(nil, i, "........."))
	}
	if body, _ := o.Freeze(usage, 2, 1<<20, join); strings.Count(string(body), ",") != 1 || body[0] != '0' {
		t.Errorf("two records are %q", body)
	}
	o.Settle(usage)
	if body, _ := o.Freeze(usage, 10, 25, join); strings.Count(string(body), ",") != 1 || body[0] != '2' {
		t.Errorf("25 bytes of records are %q", body)
	}
	o.Settle(usage)
	if body, _ := o.Freeze(usage, 10, 1, join); string(body) != "4........." {
		t.Errorf("a record that is larger than all of an envelope is sent as %q", body)
	}
}

func TestFreezeThatFailsTakesNothing(t *testing.T) {
	o := open(t, outbox.Options{})
	o.Add(usage, "k", []byte("v"))
	if _, err := o.Freeze(usage, 1, 1, func([][]byte) ([]byte, error) { return nil, os.ErrInvalid }); err == nil {
		t.Error("no error")
	}
	expect(t, "sent", drain(t, o, usage), []string{"v"})
}

// Usage gives way first and oldest first, then statuses; what must be kept never does.
func TestNoMoreThanTheBound(t *testing.T) {
	const limit = outbox.MinMaxBytes * 3 / 8
	var dropped []string
	o := open(t, outbox.Options{
		MaxBytes: outbox.MinMaxBytes, Evict: []outbox.Lane{usage, statuses, ids},
		Dropped: func(lane outbox.Lane, key string) { dropped = append(dropped, string(lane)+" "+key) },
	})
	total := func() (sum int64) {
		for _, lane := range []outbox.Lane{usage, statuses, ids} {
			_, _, bytes := o.Stats(lane)
			sum += bytes
		}
		return sum
	}
	large := make([]byte, limit/4-1000)
	o.Put(ids, "gone", large, true)
	o.Put(statuses, "s", large, false)
	o.Add(usage, "u1", large)
	o.Add(usage, "u2", large)
	expect(t, "dropped while there is room", dropped, []string{})
	o.Add(usage, "u3", large)
	expect(t, "dropped", dropped, []string{"metering u1"})
	o.Put(ids, "gone2", large, true)
	o.Put(ids, "gone3", large, true)
	expect(t, "dropped", dropped, []string{"metering u1", "metering u2", "metering u3"})
	o.Put(statuses, "s", slices.Concat(large, large), false)
	expect(t, "dropped for a larger version of itself", dropped[3:], []string{"workspace-status s", "workspace-status s"})
	if !o.Put(ids, "gone4", large, true) {
		t.Error("there was room for a deregistration")
	}
	if o.Put(ids, "gone5", large, true) {
		t.Error("a fifth quarter found room")
	}
	expect(t, "dropped in the end", dropped[5:], []string{"register gone5"})
	if got := total(); got > limit {
		t.Errorf("%d bytes wait, the limit is %d", got, int64(limit))
	}
	for range 4 {
		freeze(t, o, ids, 1)
		o.Settle(ids)
	}
	expect(t, "left", total(), 0)
}

func TestRefusesABoundThatHoldsNothing(t *testing.T) {
	if _, err := outbox.Open(t.Context(), outbox.Options{MaxBytes: 1000}); err == nil || !strings.Contains(err.Error(), "too small") {
		t.Errorf("got %v", err)
	}
}

func TestMarks(t *testing.T) {
	o := open(t, outbox.Options{})
	o.Put(ids, "a", []byte("a"), true)
	mark := o.Mark()
	o.Put(ids, "b", []byte("b"), true)
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"waiting", func() {}, true},
		{"frozen", func() { freeze(t, o, ids, 1) }, true},
		{"settled", func() { o.Settle(ids) }, false},
		{"what came later is frozen", func() { freeze(t, o, ids, 1) }, false},
	} {
		if step.do(); o.Before(ids, mark) != step.want {
			t.Errorf("%s: Before returned %t", step.what, !step.want)
		}
	}
}

func TestOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	o := open(t, outbox.Options{Dir: dir})
	o.Put(ids, "1", []byte("gone"), true)
	for i := range 5 {
		o.Add(usage, strconv.Itoa(i), fmt.Append(nil, "u", i))
	}
	frozen := freeze(t, o, usage, 2)
	o.Put(statuses, "s", []byte("old"), false)
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	o.Put(statuses, "s", []byte("new"), false)
	o.Put(statuses, "t", []byte("t"), false)
	o.Remove(usage, "3")
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	o.Close()

	o = open(t, outbox.Options{Dir: dir})
	expect(t, "frozen", freeze(t, o, usage, 10), frozen)
	o.Settle(usage)
	expect(t, "usage", drain(t, o, usage), []string{"u2", "u4"})
	expect(t, "statuses", drain(t, o, statuses), []string{"new", "t"})
	expect(t, "ids", drain(t, o, ids), []string{"gone"})
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	o.Close()

	o = open(t, outbox.Options{Dir: dir})
	for _, lane := range []outbox.Lane{usage, statuses, ids} {
		expect(t, "left", drain(t, o, lane), []string{})
	}
}

func TestOneDirectoryOneProcess(t *testing.T) {
	dir := t.TempDir()
	o := open(t, outbox.Options{Dir: dir})
	if _, err := outbox.Open(t.Context(), outbox.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "a directory of its own") {
		t.Errorf("a second outbox in one directory: %v", err)
	}
	o.Close()
	open(t, outbox.Options{Dir: dir})
}

func TestSmallerBoundThanBefore(t *testing.T) {
	dir := t.TempDir()
	o := open(t, outbox.Options{Dir: dir})
	for i := range 40 {
		o.Add(usage, strconv.Itoa(i), make([]byte, 100<<10))
	}
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	o.Close()
	o = open(t, outbox.Options{Dir: dir, MaxBytes: outbox.MinMaxBytes, Evict: []outbox.Lane{usage}})
	if _, _, bytes := o.Stats(usage); bytes > outbox.MinMaxBytes*3/8 {
		t.Errorf("%d bytes wait", bytes)
	}
	keys := o.Keys(usage)
	if len(keys) < 20 || keys[len(keys)-1] != "39" || !slices.IsSortedFunc(keys, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("kept %v, want the newest", keys)
	}
}

// The files together stay within the bound whatever happens, because a volume that is full evicts the pod.
func TestFilesStayWithinTheBound(t *testing.T) {
	dir := t.TempDir()
	o := open(t, outbox.Options{Dir: dir, MaxBytes: outbox.MinMaxBytes, Evict: []outbox.Lane{usage}})
	most := int64(0)
	for i := range 400 {
		o.Add(usage, strconv.Itoa(i), make([]byte, 60<<10))
		if i%3 == 0 {
			freeze(t, o, usage, 2)
			o.Settle(usage)
		}
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		most = max(most, sizeOf(t, dir))
	}
	if most > outbox.MinMaxBytes || most < outbox.MinMaxBytes/4 {
		t.Errorf("the files took %d bytes, the bound is %d", most, int64(outbox.MinMaxBytes))
	}
}

func sizeOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := os.Stat(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}
