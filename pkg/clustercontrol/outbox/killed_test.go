// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"
)

// childDir is the environment variable that makes this program the child of TestKilled.
const childDir = "FORMSPEC_TEST_OUTBOX"

// TestKilledChild writes without an end, and says what it is sure of.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("runs as a process of its own only")
	}
	o, err := outbox.Open(t.Context(), outbox.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	flush := func() {
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := strconv.Atoi(os.Getenv(childDir + "_FIRST"))
	for i := first; ; i++ {
		o.Add(usage, strconv.Itoa(i), []byte(strconv.Itoa(i)))
		flush()
		fmt.Println("put", i)
		if i%3 != 0 {
			continue
		}
		body, err := o.Freeze(usage, 4, 1<<20, join)
		if err != nil {
			t.Fatal(err)
		}
		flush()
		fmt.Println("frozen", string(body))
		if i%6 != 0 {
			continue // the next time it finds the same
		}
		fmt.Println("settling", string(body))
		o.Settle(usage)
		flush()
		fmt.Println("settled", string(body))
	}
}

// knowledge is what the killed process was sure of.
type knowledge struct {
	put      map[string]bool
	frozen   string // and not about to be settled
	settling map[string]bool
	settled  map[string]bool
}

func (k *knowledge) read(line string) {
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "put":
		k.put[rest] = true
	case "frozen":
		k.frozen = rest
	case "settling":
		k.frozen = ""
		for id := range strings.SplitSeq(rest, ",") {
			k.settling[id] = true
		}
	case "settled":
		for id := range strings.SplitSeq(rest, ",") {
			k.settled[id] = true
		}
	}
}

func TestKilled(t *testing.T) {
	dir := t.TempDir()
	k := &knowledge{put: map[string]bool{}, settling: map[string]bool{}, settled: map[string]bool{}}
	for round := range 15 {
		killAfter(t, dir, round*1000, 1+rand.IntN(60), k)
		check(t, dir, k)
	}
	if len(k.settled) < 30 {
		t.Errorf("the processes settled %d records only: the test shows nothing", len(k.settled))
	}
}

// killAfter starts a child and kills it after so many lines, in the midst of what it then does.
func killAfter(t *testing.T, dir string, first, lines int, k *knowledge) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledChild$")
	child.Env = append(os.Environ(), childDir+"="+dir, childDir+"_FIRST="+strconv.Itoa(first))
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		k.read(scanner.Text())
		if lines--; lines == 0 {
			_ = child.Process.Kill()
		}
	}
	_ = child.Wait() // it was killed
	if lines > 0 {
		t.Fatal("the child ended by itself")
	}
}

// check opens what a killed process has left, and leaves it as it is.
func check(t *testing.T, dir string, k *knowledge) {
	t.Helper()
	o, err := outbox.Open(t.Context(), outbox.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	_, envelopes, _ := o.Stats(usage)
	waiting, body := o.Keys(usage), ""
	if envelopes > 0 {
		body = freeze(t, o, usage, 4)
	}
	if k.frozen != "" && body != k.frozen {
		t.Errorf("the frozen envelope is %q, was %q", body, k.frozen)
	}
	there := map[string]bool{}
	for _, id := range append(slices.Clone(waiting), strings.Split(body, ",")...) {
		if there[id] {
			t.Errorf("%q is there twice", id)
		}
		there[id] = true
		if k.settled[id] {
			t.Errorf("%q was settled and is back", id)
		}
	}
	for id := range k.put {
		if !there[id] && !k.settling[id] {
			t.Errorf("%q is lost", id)
		}
	}
	if !slices.IsSortedFunc(waiting, func(a, b string) int { x, _ := strconv.Atoi(a); y, _ := strconv.Atoi(b); return x - y }) {
		t.Errorf("out of order: %v", waiting)
	}
}

// Many callers at once, and writes all the time: the file then has what memory has.
func TestConcurrentCallers(t *testing.T) {
	dir := t.TempDir()
	o := open(t, outbox.Options{Dir: dir})
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for i := range 300 {
				key := fmt.Sprintf("%d/%d", caller, i)
				o.Add(usage, key, []byte(key))
				o.Put(statuses, strconv.Itoa(i%7), []byte(key), false)
				if i%5 == 0 {
					o.Remove(usage, fmt.Sprintf("%d/%d", caller, i-3))
				}
			}
		})
	}
	callers.Go(func() {
		for range 100 {
			_, _ = o.Freeze(usage, 3, 1000, join)
			_ = o.Flush()
			o.Settle(usage)
			_ = o.Flush()
		}
	})
	callers.Wait()
	if err := o.Flush(); err != nil {
		t.Fatal(err)
	}
	want, wantStatuses := o.Keys(usage), drain(t, o, statuses)
	o.Close() // the drained statuses were not flushed: they are still in the file
	o = open(t, outbox.Options{Dir: dir})
	expect(t, "usage", o.Keys(usage), want)
	expect(t, "statuses", drain(t, o, statuses), wantStatuses)
}
