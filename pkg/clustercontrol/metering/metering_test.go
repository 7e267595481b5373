// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metering_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
)

var (
	ten  = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)
	slot = metering.SlotAt(ten, 5*time.Minute)
)

func at(offset time.Duration) time.Time { return ten.Add(offset) }

func life(start, end time.Duration) metering.Life {
	return metering.Life{Start: at(start), End: at(end)}
}

// from is the life of what still runs.
func from(start time.Duration) metering.Life { return metering.Life{Start: at(start)} }

func TestSlotsAreAlignedToUTC(t *testing.T) {
	for name, row := range map[string]struct {
		at       time.Time
		interval time.Duration
		start    string
	}{
		"first moment": {ten, 5 * time.Minute, "2026-07-10T10:00:00Z"},
		"last moment":  {at(5*time.Minute - 1), 5 * time.Minute, "2026-07-10T10:00:00Z"},
		"next":         {at(5 * time.Minute), 5 * time.Minute, "2026-07-10T10:05:00Z"},
		"other zone":   {ten.In(time.FixedZone("NPT", 20700)), time.Hour, "2026-07-10T10:00:00Z"},
		"a day":        {ten, 24 * time.Hour, "2026-07-10T00:00:00Z"},
		"odd interval": {time.Unix(20, 0), 7 * time.Second, "1970-01-01T00:00:14Z"},
		"before 1970":  {time.Unix(-1, 0), time.Minute, "1969-12-31T23:59:00Z"},
		"at -60 s":     {time.Unix(-60, 0), time.Minute, "1969-12-31T23:59:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			s := metering.SlotAt(row.at, row.interval)
			if got := clustercontrol.SlotName(s.Start); got != row.start || s.End.Sub(s.Start) != row.interval {
				t.Errorf("got %s of %s, want %s", got, s.End.Sub(s.Start), row.start)
			}
		})
	}
}

func TestIntervals(t *testing.T) {
	for interval, ok := range map[time.Duration]bool{
		10 * time.Second: true, 5 * time.Minute: true, 24 * time.Hour: true, 7 * time.Minute: true,
		0: false, -time.Minute: false, 9 * time.Second: false, 90*time.Second + 1: false, 25 * time.Hour: false,
	} {
		if err := metering.CheckInterval(interval); (err == nil) != ok {
			t.Errorf("%s: %v", interval, err)
		}
	}
}

func TestEndedSlots(t *testing.T) {
	names := func(after, now time.Duration, most int) (starts []time.Duration) {
		for _, s := range metering.Ended(at(after), at(now), 5*time.Minute, most) {
			starts = append(starts, s.Start.Sub(ten)/time.Minute)
		}
		return starts
	}
	for name, row := range map[string]struct{ got, want []time.Duration }{
		"none yet":                  {names(0, 5*time.Minute-1, 100), nil},
		"at its end":                {names(0, 5*time.Minute, 100), []time.Duration{0}},
		"decided":                   {names(5*time.Minute, 9*time.Minute, 100), nil},
		"several, oldest one first": {names(0, 17*time.Minute, 100), []time.Duration{0, 5, 10}},
		"the newest if many":        {names(-time.Hour, 17*time.Minute, 2), []time.Duration{5, 10}},
		"a clock that went back":    {names(time.Hour, 17*time.Minute, 100), nil},
	} {
		if !slices.Equal(row.got, row.want) {
			t.Errorf("%s: got %v, want %v", name, row.got, row.want)
		}
	}
}

func TestIntegrate(t *testing.T) {
	read := func(offset time.Duration, cpu, memory int64) metering.Reading {
		return metering.Reading{At: at(offset), CPUMillicores: cpu, MemoryBytes: memory}
	}
	for name, row := range map[string]struct {
		life             metering.Life
		readings         []metering.Reading
		cpu, memory, pod float64
	}{
		"no readings cost nothing but pod time": {life: from(-time.Hour), pod: 300},
		"one reading in the midst stands for Hold on both sides": {
			from(-time.Hour), []metering.Reading{read(150*time.Second, 100, 1000)}, 30_000, 300_000, 300,
		},
		"each reading stands for the time before it": {
			from(-time.Hour), []metering.Reading{read(0, 900, 9), read(100*time.Second, 100, 10), read(250*time.Second, 200, 20), read(300*time.Second, 50, 5)}, 100*100 + 150*200 + 50*50, 10*100 + 150*20 + 50*5, 300,
		},
		"the first reading after the end covers the end": {
			from(-time.Hour), []metering.Reading{read(-30*time.Second, 900, 9), read(150*time.Second, 100, 1), read(330*time.Second, 200, 2)}, 100*150 + 200*150, 150 + 300, 300,
		},
		"starts within": {
			from(200 * time.Second), []metering.Reading{read(260*time.Second, 100, 1), read(320*time.Second, 50, 1)}, 100*60 + 50*40, 100, 100,
		},
		"ends within, and the last reading covers its end": {
			life(-time.Hour, 100*time.Second), []metering.Reading{read(0, 7, 7), read(60*time.Second, 100, 1)}, 60*100 + 40*100, 100, 100,
		},
		"starts and ends within, and nobody looked": {
			life(100*time.Second, 110*time.Second), nil, 0, 0, 10,
		},
		"a hole in the readings costs nothing": {
			from(-2 * time.Hour), []metering.Reading{read(-time.Hour, 1000, 1000), read(290*time.Second, 100, 1)}, 190 * 100, 190, 300,
		},
		"ended before":                 {life(-time.Hour, 0), []metering.Reading{read(-time.Second, 100, 100)}, 0, 0, 0},
		"starts after":                 {from(300 * time.Second), []metering.Reading{read(330*time.Second, 100, 100)}, 0, 0, 0},
		"readings of before its start": {from(100 * time.Second), []metering.Reading{read(50*time.Second, 100, 100)}, 0, 0, 200},
		"the same reading twice":       {from(-time.Hour), []metering.Reading{read(0, 1, 1), read(300*time.Second, 10, 1), read(300*time.Second, 999, 9)}, 1800, 180, 300},
		"negative readings":            {from(-time.Hour), []metering.Reading{read(150*time.Second, -5, -5)}, 0, 0, 300},
		"an end before the start":      {life(100*time.Second, 50*time.Second), []metering.Reading{read(120*time.Second, 5, 5)}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			u := metering.Integrate(slot, row.life, row.readings)
			if u.CPUMillicoreSeconds != row.cpu || u.MemoryByteSeconds != row.memory || u.PodSeconds != row.pod {
				t.Errorf("got %+v, want cpu %f, memory %f, pod %f", u, row.cpu, row.memory, row.pod)
			}
		})
	}
}

// However time is cut, the parts are the whole: nothing is charged twice or lost at a boundary.
func TestSlotsAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		start := time.Duration(random.IntN(3600)) * time.Second
		l := from(start)
		if random.IntN(2) == 0 {
			l = life(start, start+time.Duration(random.IntN(3600))*time.Second)
		}
		var readings []metering.Reading
		for offset := start; offset < 2*time.Hour; offset += time.Duration(5+random.IntN(400)) * time.Second {
			readings = append(readings, metering.Reading{At: at(offset), CPUMillicores: random.Int64N(8000), MemoryBytes: random.Int64N(1 << 34)})
		}
		var sum metering.Usage
		for _, s := range metering.Ended(ten, at(2*time.Hour), time.Minute, 1000) {
			sum.Add(metering.Integrate(s, l, readings))
		}
		all := metering.Integrate(metering.Slot{Start: ten, End: at(2 * time.Hour)}, l, readings)
		if math.Abs(sum.CPUMillicoreSeconds-all.CPUMillicoreSeconds) > 0.01 || math.Abs(sum.MemoryByteSeconds-all.MemoryByteSeconds) > 1 ||
			math.Abs(sum.PodSeconds-all.PodSeconds) > 1e-6 || all.PodSeconds > 7200 {
			t.Fatalf("the slots add up to %+v, the whole is %+v", sum, all)
		}
	}
}

// observe fills a book as a replica does that sees readings every 30 s, with a phase of its own.
func observe(phase time.Duration, until time.Duration) *metering.Book {
	b := metering.NewBook()
	b.Workspace(metering.Workspace{UID: "ws-1", Namespace: "bank", Name: "web", Life: from(-time.Hour), StorageBytes: new(int64(7))})
	b.Workspace(metering.Workspace{UID: "ws-2", Namespace: "bank", Name: "asleep", Life: from(-time.Hour)})
	b.Workspace(metering.Workspace{UID: "ws-3", Namespace: "bank", Name: "later", Life: from(time.Hour)})
	b.Node(metering.Node{UID: "node-1", Name: "n1", Life: from(-time.Hour)})
	b.Pod(metering.Pod{UID: "pod-1", Workspace: "ws-1", Node: "n1", Life: from(-time.Hour)})
	b.Pod(metering.Pod{UID: "pod-2", Workspace: "ws-1", Node: "n1", Life: life(0, 100*time.Second)})
	b.Pod(metering.Pod{UID: "pod-3", Workspace: "ws-1", Node: "n1"})
	for offset := -time.Minute + phase; offset < until; offset += 30 * time.Second {
		for _, uid := range []types.UID{"pod-1", "pod-2", "node-1", "of-somebody-else"} {
			b.Read(uid, metering.Reading{At: at(offset), CPUMillicores: 100, MemoryBytes: 1000})
		}
	}
	return b
}

func TestRecords(t *testing.T) {
	got := observe(0, 400*time.Second).Records("jkt", slot)
	want := []clustercontrol.UsageRecord{
		{
			IdempotencyKey: "jkt/ws-1/2026-07-10T10:00:00Z", Slot: "2026-07-10T10:00:00Z", Namespace: "bank", Workspace: "web", UID: "ws-1",
			CPUMillicoreSeconds: new(int64(40_000)), MemoryByteSeconds: new(int64(400_000)), StorageBytes: new(int64(7)), PodSeconds: 400,
		},
		{
			IdempotencyKey: "jkt/ws-2/2026-07-10T10:00:00Z", Slot: "2026-07-10T10:00:00Z", Namespace: "bank", Workspace: "asleep", UID: "ws-2",
			CPUMillicoreSeconds: new(int64(0)), MemoryByteSeconds: new(int64(0)),
		},
		{
			IdempotencyKey: "jkt/node-1/2026-07-10T10:00:00Z", Slot: "2026-07-10T10:00:00Z", Node: "n1", UID: "node-1",
			CPUMillicoreSeconds: new(int64(30_000)), MemoryByteSeconds: new(int64(300_000)), PodSeconds: 400,
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", lines(t, got), lines(t, want))
	}
}

// What ran and was never read used nobody knows how much.
func TestUsageThatNobodyMeasuredIsUnknown(t *testing.T) {
	b := metering.NewBook()
	b.Workspace(metering.Workspace{UID: "ws", Namespace: "bank", Name: "web", Life: from(-time.Hour)})
	b.Node(metering.Node{UID: "node", Name: "n1", Life: from(-time.Hour)})
	b.Pod(metering.Pod{UID: "pod", Workspace: "ws", Node: "n1", Life: from(-time.Hour)})
	b.Read("pod", metering.Reading{At: at(-time.Hour), CPUMillicores: 100, MemoryBytes: 1000})
	for _, r := range b.Records("jkt", slot) {
		if r.CPUMillicoreSeconds != nil || r.MemoryByteSeconds != nil || r.PodSeconds != 300 {
			t.Errorf("got %s", lines(t, []clustercontrol.UsageRecord{r}))
		}
	}
}

// lines are the records as they are sent.
func lines(t *testing.T, records []clustercontrol.UsageRecord) (text string) {
	t.Helper()
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		text += "\n  " + string(line)
	}
	return text
}

// A new leader decides a slot of before its time by the same keys.
func TestKeysDoNotDependOnWhoComputesThem(t *testing.T) {
	keys := func(b *metering.Book) (keys []string) {
		for _, r := range b.Records("jkt", slot) {
			keys = append(keys, r.IdempotencyKey)
		}
		return keys
	}
	if a, b := keys(observe(0, time.Hour)), keys(observe(13*time.Second, 2*time.Hour)); !slices.Equal(a, b) || len(a) != 3 {
		t.Errorf("%v and %v", a, b)
	}
}

func TestForgetKeepsWhatSlotsStillNeed(t *testing.T) {
	b := observe(0, 20*time.Minute)
	next := metering.SlotAt(at(5*time.Minute), 5*time.Minute)
	before := lines(t, b.Records("jkt", next))
	b.Forget(next.Start)
	if after := lines(t, b.Records("jkt", next)); after != before {
		t.Errorf("got  %s\nwant %s", after, before)
	}
	if n := b.Readings(); n > 2*50 {
		t.Errorf("%d readings are kept", n)
	}
	b.Forget(at(24 * time.Hour))
	if n := b.Readings(); n != 0 {
		t.Errorf("%d readings are kept of yesterday", n)
	}
}

// Nobody forgets, and readings come for a year.
func TestBookIsBounded(t *testing.T) {
	b := metering.NewBook()
	for i := range 100_000 {
		b.Read("pod", metering.Reading{At: at(time.Duration(i) * time.Minute)})
	}
	if n := b.Readings(); n > 500 {
		t.Errorf("%d readings are kept", n)
	}
}

func TestPodsDoNotComeBack(t *testing.T) {
	b := metering.NewBook()
	b.Workspace(metering.Workspace{UID: "ws", Life: from(-time.Hour)})
	b.Pod(metering.Pod{UID: "pod", Workspace: "ws", Life: life(0, time.Minute)})
	b.Pod(metering.Pod{UID: "pod", Workspace: "ws", Life: from(0)}) // a stale view
	if got := b.Records("jkt", slot)[0].PodSeconds; got != 60 {
		t.Errorf("%d pod seconds", got)
	}
}

// A pod that its node refused has a start, and an end that nobody tells. It ran at no time.
func TestPodsThatEndUntold(t *testing.T) {
	untold := func(end time.Duration) metering.Life {
		return metering.Life{Start: at(0), End: at(end), Untold: true}
	}
	for name, row := range map[string]struct {
		lives []metering.Life
		want  int64
	}{
		"never seen alive":                {[]metering.Life{untold(2 * time.Minute), untold(4 * time.Minute)}, 0},
		"seen alive, and deleted later":   {[]metering.Life{from(0), untold(2 * time.Minute), untold(4 * time.Minute)}, 120},
		"seen to end, and told otherwise": {[]metering.Life{from(0), life(0, time.Minute), untold(4 * time.Minute)}, 60},
	} {
		b := metering.NewBook()
		b.Workspace(metering.Workspace{UID: "ws", Life: from(-time.Hour)})
		for _, l := range row.lives {
			b.Pod(metering.Pod{UID: "pod", Workspace: "ws", Life: l})
		}
		if got := b.Records("jkt", slot)[0].PodSeconds; got != row.want {
			t.Errorf("%s: %d pod seconds, want %d", name, got, row.want)
		}
	}
}

// A node that is replaced under its name bears the pods of its own time only.
func TestNodesOfOneName(t *testing.T) {
	b := metering.NewBook()
	b.Node(metering.Node{UID: "first", Name: "n1", Life: life(-time.Hour, 2*time.Minute)})
	b.Node(metering.Node{UID: "second", Name: "n1", Life: from(3 * time.Minute)})
	b.Pod(metering.Pod{UID: "a", Node: "n1", Life: life(0, 2*time.Minute)})
	b.Pod(metering.Pod{UID: "b", Node: "n1", Life: from(4 * time.Minute)})
	b.Pod(metering.Pod{UID: "stays", Node: "n1", Life: from(-time.Minute)})
	got := map[types.UID]int64{}
	for _, r := range b.Records("jkt", slot) {
		got[r.UID] = r.PodSeconds
	}
	if want := map[types.UID]int64{"first": 120 + 120, "second": 60 + 120}; !reflect.DeepEqual(got, want) {
		t.Errorf("pod seconds %v, want %v", got, want)
	}
}
