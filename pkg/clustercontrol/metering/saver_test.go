// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metering_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
)

// shelf is a Shelf in memory.
type shelf struct {
	keys []string
	data map[string][]byte
	puts int
}

func (s *shelf) Put(key string, data []byte) {
	if s.data == nil {
		s.data = map[string][]byte{}
	}
	if s.data[key] == nil {
		s.keys = append(s.keys, key)
	}
	s.data[key] = data
	s.puts++
}

func (s *shelf) Remove(key string) {
	s.keys = slices.DeleteFunc(s.keys, func(k string) bool { return k == key })
	delete(s.data, key)
}

func (s *shelf) All() iter.Seq2[string, []byte] {
	keys := slices.Clone(s.keys)
	return func(yield func(string, []byte) bool) {
		for _, key := range keys {
			if !yield(key, s.data[key]) {
				return
			}
		}
	}
}

func (s *shelf) bytes() (sum int) {
	for _, data := range s.data {
		sum += len(data)
	}
	return sum
}

// replica is one that can be killed: what it has saved is what is left.
type replica struct {
	*metering.Book
	saver           *metering.Saver
	readings, lives shelf
	since           time.Time
}

// start starts it, anew if it ran before.
func (r *replica) start(now time.Duration) {
	r.saver = metering.NewSaver(&r.readings, &r.lives)
	r.Book, r.since = r.saver.Restore(at(now))
}

func (r *replica) save(now time.Duration) { r.saver.Save(r.Book, at(now)) }

// alive enters what an informer tells of what runs.
func (r *replica) alive() {
	r.Workspace(metering.Workspace{UID: "ws-1", Namespace: "bank", Name: "web", Life: from(-time.Hour), StorageBytes: new(int64(7))})
	r.Workspace(metering.Workspace{UID: "ws-2", Namespace: "bank", Name: "asleep", Life: from(-time.Hour)})
	r.Node(metering.Node{UID: "node-1", Name: "n1", Life: from(-time.Hour)})
	r.Pod(metering.Pod{UID: "pod-1", Workspace: "ws-1", Node: "n1", Life: from(-time.Hour)})
}

// read is one round of readings, which it then saves.
func (r *replica) read(now time.Duration, cpu int64, uids ...types.UID) {
	for _, uid := range uids {
		r.Read(uid, metering.Reading{At: at(now), CPUMillicores: cpu, MemoryBytes: 10 * cpu})
	}
	r.save(now)
}

// billed is the usage of a UID in a slot, as millicore seconds and pod seconds.
func (r *replica) billed(uid types.UID, slot metering.Slot) string {
	for _, record := range r.Records("jkt", slot) {
		if record.UID == uid {
			cpu := "unknown"
			if record.CPUMillicoreSeconds != nil {
				cpu = strconv.FormatInt(*record.CPUMillicoreSeconds, 10)
			}
			return fmt.Sprintf("%s %d", cpu, record.PodSeconds)
		}
	}
	return "none"
}

// Whenever it was killed, what it decides in the end is what it would have decided.
func TestKilledAtAnyTime(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	observe := func(killed func(step int) bool) (records [2]string) {
		r := &replica{}
		r.start(-time.Minute)
		random := rand.New(rand.NewPCG(5, 6)) // the same usage each time
		for step := range 60 {
			now := time.Duration(step)*15*time.Second - time.Minute
			if killed(step) {
				r.start(now - time.Second)
			}
			r.alive()
			if step > 8 && step < 20 {
				r.Pod(metering.Pod{UID: "pod-2", Workspace: "ws-1", Node: "n1", Life: from(time.Minute)})
			}
			if step == 20 {
				r.Pod(metering.Pod{UID: "pod-2", Workspace: "ws-1", Node: "n1", Life: life(time.Minute, 237*time.Second)})
				r.Workspace(metering.Workspace{UID: "ws-3", Namespace: "bank", Name: "gone", Life: life(time.Minute, 200*time.Second), StorageBytes: new(int64(3))})
			}
			r.read(now, random.Int64N(4000), "pod-1", "pod-2", "node-1")
		}
		for i := range records {
			records[i] = lines(t, r.Records("jkt", metering.SlotAt(at(time.Duration(i)*5*time.Minute), 5*time.Minute)))
		}
		return records
	}
	want := observe(func(int) bool { return false })
	for range 50 {
		if got := observe(func(int) bool { return random.IntN(4) == 0 }); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

func TestWhatARestartKnows(t *testing.T) {
	const kill = 2 * time.Minute
	for name, row := range map[string]struct {
		restart time.Duration
		then    func(r *replica) // up to 5m30s
		want    string           // of the Workspace, in the slot
		node    string
	}{
		"a gap is one interval, of the reading at its end": {
			150 * time.Second, func(r *replica) { r.alive(); r.read(330*time.Second, 50, "pod-1", "node-1") },
			"19500 300", "19500 300", // 120 s at 100, of the gap of 210 s the last 180 at 50, of which 150 are in the slot
		},
		"a pod that went in a short gap had it all": {
			150 * time.Second, func(r *replica) {
				r.Workspace(metering.Workspace{UID: "ws-1", Namespace: "bank", Name: "web", Life: from(-time.Hour)})
				r.read(330*time.Second, 50)
			},
			"15000 150", "15000 150",
		},
		"a pod that went in a long gap had no more than Hold of it": {
			time.Hour, func(r *replica) {
				r.Workspace(metering.Workspace{UID: "ws-1", Namespace: "bank", Name: "web", Life: from(-time.Hour)})
			},
			"30000 300", "30000 300",
		},
		"a Workspace that went in the gap was there, with its pod": {
			150 * time.Second, func(r *replica) { r.read(330*time.Second, 50) }, "15000 150", "15000 150",
		},
		"a pod that is seen again after another kill did not end": {
			150 * time.Second, func(r *replica) {
				r.save(155 * time.Second) // before any informer has told anything
				r.start(160 * time.Second)
				r.alive()
				r.read(330*time.Second, 100, "pod-1", "node-1")
			},
			"27000 300", "27000 300",
		},
		"a pod that is not seen again after another kill lived until the first": {
			150 * time.Second, func(r *replica) {
				r.save(155 * time.Second)
				r.start(270 * time.Second)
				r.save(300 * time.Second)
			},
			"15000 150", "15000 150",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &replica{}
			r.start(-time.Minute)
			for now := -time.Minute; now <= kill; now += 15 * time.Second {
				r.alive()
				r.read(now, 100, "pod-1", "node-1")
			}
			r.start(row.restart)
			if !r.since.Equal(at(-time.Minute)) {
				t.Errorf("it has samples since %s", r.since)
			}
			row.then(r)
			if got := r.billed("ws-1", slot); got != row.want {
				t.Errorf("the Workspace: got %s, want %s", got, row.want)
			}
			if got := r.billed("node-1", slot); got != row.node {
				t.Errorf("the node: got %s, want %s", got, row.node)
			}
		})
	}
}

// Of slots that a replica has not seen it knows what it is told of lives, and no usage.
func TestDownForWholeSlots(t *testing.T) {
	r := &replica{}
	r.start(0)
	r.alive()
	r.Pod(metering.Pod{UID: "pod-2", Workspace: "ws-2", Node: "n1", Life: from(0)})
	r.read(4*time.Minute, 100, "pod-1", "pod-2")
	r.start(time.Hour)
	r.alive()
	r.read(time.Hour, 100, "pod-1")
	for start, want := range map[time.Duration][2]string{
		0:                {"18000 300", "24000 300"}, // Hold before the reading; the last one of a pod also stands for Hold after it
		5 * time.Minute:  {"unknown 300", "12000 120"},
		10 * time.Minute: {"unknown 300", "0 0"},
		55 * time.Minute: {"18000 300", "0 0"},
	} {
		s := metering.SlotAt(at(start), 5*time.Minute)
		if got := [2]string{r.billed("ws-1", s), r.billed("ws-2", s)}; got != want {
			t.Errorf("slot at %s: got %q, want %q", start, got, want)
		}
	}
}

// Slots may be cut elsewhere by the next process: their sum is the same.
func TestRestartWithAnotherInterval(t *testing.T) {
	r := &replica{}
	r.start(0)
	for now := time.Duration(0); now <= 10*time.Minute; now += 15 * time.Second {
		r.alive()
		r.read(now, 100+int64(now/time.Second), "pod-1")
	}
	long := r.Records("jkt", metering.Slot{Start: ten, End: at(8 * time.Minute)})[0]
	r.start(10 * time.Minute)
	r.alive()
	var cpu, pods int64
	for _, s := range metering.Ended(ten, at(8*time.Minute), 2*time.Minute, 10) {
		record := r.Records("jkt", s)[0]
		cpu += *record.CPUMillicoreSeconds
		pods += record.PodSeconds
	}
	if long.Workspace != "web" || cpu != *long.CPUMillicoreSeconds || pods != 480 {
		t.Errorf("%d millicore seconds, want %d; %d pod seconds", cpu, *long.CPUMillicoreSeconds, pods)
	}
}

// What was saved by a clock that was ahead is not known yet, and keeps nothing from being known.
func TestRestartWithAClockThatWentBack(t *testing.T) {
	r := &replica{}
	r.start(time.Hour)
	r.alive()
	r.Pod(metering.Pod{UID: "pod-2", Workspace: "ws-2", Node: "n1", Life: life(0, time.Hour)})
	r.Pod(metering.Pod{UID: "pod-3", Workspace: "ws-2", Node: "n1", Life: from(0)})
	r.read(time.Hour, 9999, "pod-1")
	r.start(10 * time.Second)
	if !r.since.IsZero() {
		t.Errorf("it has samples since %s", r.since)
	}
	for now := 15 * time.Second; now <= 330*time.Second; now += 15 * time.Second {
		r.alive()
		r.read(now, 100, "pod-1")
	}
	if got := r.billed("ws-1", slot); got != "30000 300" {
		t.Errorf("it bills %s", got)
	}
	if got := r.billed("ws-2", slot); got != "unknown 10" { // pod-2 had ended by now; of pod-3 nothing is known
		t.Errorf("it bills the other %s", got)
	}
	r.start(331 * time.Second)
	r.alive()
	if got := r.billed("ws-1", slot); got != "30000 300" {
		t.Errorf("after another restart it bills %s", got)
	}
}

func TestWhatCannotBeReadIsLeftOut(t *testing.T) {
	r := &replica{}
	r.start(0)
	r.alive()
	r.read(time.Minute, 100, "pod-1", "node-1")
	r.read(2*time.Minute, 100, "pod-1", "node-1")
	good := [2]int{len(r.readings.keys), len(r.lives.keys)}
	for i, bad := range []string{
		"", "null", "{}", "[]", "no JSON", `{"at":1,"uids":["x"]}`, `{"at":1,"uids":["x"],"ages":[1],"cpu":[1],"memory":[1,2]}`, `{"at":"x"}`, `{"kind":"pod"}`,
		`{"kind":"moon","uid":"m"}`, `{"kind":"pod","uid":"of-another-key","start":1}`,
	} {
		r.readings.Put(strconv.Itoa(100+i), []byte(bad))
		r.lives.Put("bad"+strconv.Itoa(i), []byte(bad))
	}
	r.readings.Put("no number", []byte(`{"at":1}`))
	r.start(130 * time.Second)
	if got := [2]int{len(r.readings.keys), len(r.lives.keys)}; got != good {
		t.Errorf("%v entries are kept, want %v", got, good)
	}
	r.alive()
	r.read(330*time.Second, 100, "pod-1", "node-1")
	if got := r.billed("ws-1", slot); got != "27000 300" { // two minutes, and Hold before the end; the end is in the next slot
		t.Errorf("it bills %s", got)
	}
}

// What is on the shelves is what open slots need, however long it goes on, and each reading is written once.
func TestSavedIsBounded(t *testing.T) {
	r := &replica{}
	r.start(0)
	const ticks = 2000
	for i := range ticks {
		now := time.Duration(i) * 15 * time.Second
		pod := metering.Pod{UID: types.UID(fmt.Sprintf("pod-of-%d", i/20)), Workspace: "ws-1", Node: "n1", Life: from(now)}
		r.alive()
		r.Pod(pod)
		r.Forget(metering.SlotAt(at(now), 5*time.Minute).Start)
		r.read(now, 100, "pod-1", "node-1", pod.UID)
		pod.Life.End = at(now + time.Second)
		r.Pod(pod)
	}
	if n := len(r.readings.keys); n < 12 || n > 34 {
		t.Errorf("%d batches are kept, want those of a slot and of Hold before it", n)
	}
	if n := len(r.lives.keys); n > 4+3 {
		t.Errorf("%d lives are kept", n)
	}
	if r.readings.puts != ticks || r.lives.puts > 4+3*ticks {
		t.Errorf("%d batches and %d lives were written", r.readings.puts, r.lives.puts)
	}
	r.start(ticks * 15 * time.Second)
	if r.save(ticks * 15 * time.Second); len(r.readings.keys) > 35 {
		t.Errorf("%d batches are kept after a restart", len(r.readings.keys))
	}
}

// Nobody decides a slot, and there is much to see.
func TestSavedReadingsHaveABound(t *testing.T) {
	r := &replica{}
	r.start(0)
	padding := strings.Repeat("x", 4000) // so that few do
	for i := range 60 {
		now := time.Duration(i) * 15 * time.Second
		uids := make([]types.UID, 100)
		for j := range uids {
			uids[j] = types.UID(padding + strconv.Itoa(j))
			r.Pod(metering.Pod{UID: uids[j], Workspace: "ws-1", Node: "n1", Life: from(0)})
		}
		r.read(now, 100, uids...)
	}
	if n := r.readings.bytes(); n > 16<<20 || n < 15<<20 {
		t.Errorf("%d bytes of readings are kept", n)
	}
	r.start(20 * time.Minute)
	if r.save(20 * time.Minute); r.readings.bytes() > 16<<20 {
		t.Errorf("%d bytes of readings are kept after a restart", r.readings.bytes())
	}
}

func TestNoSaver(t *testing.T) {
	var s *metering.Saver
	b, since := s.Restore(ten)
	if s.Save(b, ten); b == nil || !since.IsZero() {
		t.Errorf("got %v since %s", b, since)
	}
}
