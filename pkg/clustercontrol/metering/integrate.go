// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metering

import (
	"math"
	"time"
)

// Hold is the longest time that one reading stands for. Readings come every 15 s to 60 s.
const Hold = 3 * time.Minute

// Reading is the usage of a pod or node, as metrics.k8s.io has it.
type Reading struct {
	// At is the end of the window that the reading is the mean of.
	At time.Time
	// CPUMillicores and MemoryBytes. Negative ones count as 0.
	CPUMillicores, MemoryBytes int64
}

// Life is when something ran. A zero End: it still does.
type Life struct {
	Start, End time.Time
	// Untold says that it has ended by End, and nothing tells when. Who was never seen alive may never have run.
	Untold bool
	// presumed says that nobody saw the end, and who sees it alive knows better.
	presumed bool
}

// Usage are integrals over a slot. They are sums, not yet rounded.
type Usage struct {
	CPUMillicoreSeconds, MemoryByteSeconds, PodSeconds float64
	// Measured says that some reading stands for some of the slot.
	Measured bool
}

// Add adds another usage.
func (u *Usage) Add(other Usage) {
	u.CPUMillicoreSeconds += other.CPUMillicoreSeconds
	u.MemoryByteSeconds += other.MemoryByteSeconds
	u.PodSeconds += other.PodSeconds
	u.Measured = u.Measured || other.Measured
}

// whole rounds a sum, which was never negative, to what a record holds.
func whole(sum float64) int64 {
	if sum >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Round(sum))
}

// Integrate returns the usage within the slot of what lived for life and gave these readings, which are in the order of their times. The
// reading after the end of the slot counts as well: it stands for the end of it. So a slot is best computed once that has come.
func Integrate(slot Slot, life Life, readings []Reading) Usage {
	u := Usage{PodSeconds: slot.overlap(life.Start, life.End).Seconds()}
	previous, last := life.Start, Reading{}
	add := func(r Reading, start, end time.Time) {
		if !life.End.IsZero() && end.After(life.End) {
			end = life.End
		}
		seconds := slot.overlap(start, end).Seconds()
		u.CPUMillicoreSeconds += float64(max(0, r.CPUMillicores)) * seconds
		u.MemoryByteSeconds += float64(max(0, r.MemoryBytes)) * seconds
		u.Measured = u.Measured || seconds > 0
	}
	for _, r := range readings {
		if !r.At.After(previous) {
			continue // of before the start, or the same reading twice
		}
		start := r.At.Add(-Hold)
		if start.Before(previous) {
			start = previous
		}
		add(r, start, r.At)
		previous, last = r.At, r
	}
	add(last, last.At, last.At.Add(Hold))
	return u
}
