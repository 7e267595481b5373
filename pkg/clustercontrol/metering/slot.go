// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metering

import (
	"fmt"
	"slices"
	"time"
)

// Slot is the time from Start to before End. Slots of one interval follow each other without a gap from 1970 on, in UTC.
type Slot struct {
	Start, End time.Time
}

// CheckInterval says what is wrong with an interval, if anything is.
func CheckInterval(interval time.Duration) error {
	if interval < 10*time.Second || interval > 24*time.Hour || interval%time.Second != 0 {
		return fmt.Errorf("must be whole seconds from 10s to 24h, is %s", interval)
	}
	return nil
}

// SlotAt is the slot that t is in. interval must pass CheckInterval.
func SlotAt(t time.Time, interval time.Duration) Slot {
	seconds := int64(interval / time.Second)
	start := t.Unix() - t.Unix()%seconds
	if start > t.Unix() { // before 1970
		start -= seconds
	}
	return Slot{time.Unix(start, 0).UTC(), time.Unix(start+seconds, 0).UTC()}
}

// Ended are the slots that end after the time after and not after now, oldest first: those to decide when everything that ended by after
// is decided. They are at most most, the newest.
func Ended(after, now time.Time, interval time.Duration, most int) []Slot {
	var slots []Slot
	for s := SlotAt(now.Add(-interval), interval); len(slots) < most && s.End.After(after); s = SlotAt(s.Start.Add(-interval), interval) {
		if !s.End.After(now) {
			slots = append(slots, s)
		}
	}
	slices.Reverse(slots)
	return slots
}

// overlap is how much of the time from start to end is in the slot. A zero end is yet to come.
func (s Slot) overlap(start, end time.Time) time.Duration {
	if start.Before(s.Start) {
		start = s.Start
	}
	if end.IsZero() || end.After(s.End) {
		end = s.End
	}
	return max(0, end.Sub(start))
}
