// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package condition_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
)

var (
	earlier = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)
	later   = time.Date(2026, 7, 10, 11, 0, 0, 123456789, time.FixedZone("WIB", 7*3600))
)

func ready(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message, ObservedGeneration: 1}
}

func TestSet(t *testing.T) {
	for name, row := range map[string]struct {
		before []metav1.Condition
		set    metav1.Condition
		moved  bool // the transition time is that of the call
	}{
		"the first condition": {
			nil, ready(metav1.ConditionTrue, "Available", ""), true,
		},
		"a status that flips": {
			[]metav1.Condition{ready(metav1.ConditionFalse, "Lost", "")}, ready(metav1.ConditionTrue, "Available", ""), true,
		},
		"another reason and message for the same status": {
			[]metav1.Condition{ready(metav1.ConditionFalse, "Lost", "1 of 2")}, ready(metav1.ConditionFalse, "Image", "gone"), false,
		},
		"another generation": {
			[]metav1.Condition{ready(metav1.ConditionTrue, "Available", "")},
			metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Available", ObservedGeneration: 2},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range row.before {
				row.before[i].LastTransitionTime = metav1.NewTime(earlier)
			}
			other := metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(earlier)}
			got := condition.Set(append(row.before, other), row.set, later)

			want := row.set
			if want.LastTransitionTime = metav1.NewTime(earlier); row.moved {
				want.LastTransitionTime = metav1.NewTime(later.Truncate(time.Second))
			}
			found := map[string]metav1.Condition{}
			for _, c := range got {
				found[c.Type] = c
			}
			if is := found["Ready"]; !is.LastTransitionTime.Equal(&want.LastTransitionTime) || is.Status != want.Status ||
				is.Reason != want.Reason || is.Message != want.Message || is.ObservedGeneration != want.ObservedGeneration {
				t.Errorf("got %+v, want %+v", is, want)
			}
			if len(got) != 2 || found["Other"] != other {
				t.Errorf("got %+v, want one Ready and the other condition as it was", got)
			}
		})
	}
}

// A time with nanoseconds would differ from what comes back from the API server, and be written again for ever.
func TestSetKeepsWholeSeconds(t *testing.T) {
	got := condition.Set(nil, ready(metav1.ConditionTrue, "Available", ""), later)[0].LastTransitionTime
	if got.Nanosecond() != 0 || !got.Time.Equal(later.Truncate(time.Second)) {
		t.Errorf("got %s, want %s", got, later.Truncate(time.Second))
	}
}

func TestSetShortensALongMessageBetweenCharacters(t *testing.T) {
	for name, message := range map[string]string{
		"of single bytes":                 strings.Repeat("a", 5000),
		"with a character across the end": strings.Repeat("a", 4095) + strings.Repeat("é", 100),
		"of characters of three bytes":    strings.Repeat("€", 2000),
	} {
		t.Run(name, func(t *testing.T) {
			got := condition.Set(nil, ready(metav1.ConditionFalse, "Refused", message), later)[0].Message
			if len(got) > 4096 || len(got) < 4093 || !utf8.ValidString(got) || !strings.HasPrefix(message, got) {
				t.Errorf("message of %d bytes, valid %v; want the beginning, as long as fits into 4096 bytes", len(got), utf8.ValidString(got))
			}
		})
	}
	if got := condition.Set(nil, ready(metav1.ConditionFalse, "Refused", strings.Repeat("a", 4096)), later)[0].Message; len(got) != 4096 {
		t.Errorf("a message that fits was cut to %d bytes", len(got))
	}
}

func TestRemove(t *testing.T) {
	conditions := []metav1.Condition{{Type: "Ready"}, {Type: "Stalled"}}
	if got := condition.Remove(conditions, "Stalled"); len(got) != 1 || got[0].Type != "Ready" {
		t.Errorf("got %+v, want Ready alone", got)
	}
	if got := condition.Remove(nil, "Stalled"); len(got) != 0 {
		t.Errorf("got %+v, want nothing", got)
	}
}

func TestBool(t *testing.T) {
	if condition.Bool(true) != metav1.ConditionTrue || condition.Bool(false) != metav1.ConditionFalse {
		t.Error("true must be True and false must be False")
	}
}
