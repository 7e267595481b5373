// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

// measured is a usage record that counts, and its bytes.
type measured struct {
	Usage
	raw []byte
}

// takeUsage counts each slot once: the first body counts (§5.3). Other bytes under the same key are a violation that costs
// nothing, since the operator could do nothing about a refusal.
func (l *ledger) takeUsage(c Capture, e envelope) Verdict {
	records, err := decodeRecords(e, func(u *Usage) { u.Cluster = e.Cluster })
	for i, u := range records {
		if err == nil {
			err = l.checkSlot(fmt.Sprintf("records[%d]", i), u)
		}
	}
	if err != nil {
		return l.refuse(c, e, http.StatusBadRequest, BadRecord, err)
	}
	added := 0
	for i, u := range records {
		before, known := l.usage[u.Key]
		switch {
		case !known:
			l.usage[u.Key] = measured{u, e.Records[i]}
			added++
		case !bytes.Equal(before.raw, e.Records[i]):
			l.violate(c, e, SlotReused, fmt.Sprintf("%q was counted before, with other values", u.Key))
		}
	}
	if added == 0 && len(records) > 0 {
		return Verdict{http.StatusConflict, "already accepted: every slot was counted before"}
	}
	return Verdict{http.StatusOK, fmt.Sprintf("accepted: %d of %d slots are new", added, len(records))}
}

// checkSlot checks what the schema cannot: slots start at whole intervals of UTC, and the key is cluster/uid/slot.
func (l *ledger) checkSlot(path string, u Usage) error {
	slot := u.Slot.Format(time.RFC3339Nano)
	if _, offset := u.Slot.Zone(); offset != 0 || !u.Slot.Equal(u.Slot.Truncate(l.interval)) {
		return fmt.Errorf("%s.slot is not the start of an interval of %s in UTC: %s", path, l.interval, slot)
	}
	if want := u.Cluster + "/" + u.UID + "/" + slot; u.Key != want {
		return fmt.Errorf("%s.idempotency_key is %q, want %q", path, u.Key, want)
	}
	return nil
}
