// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package condition_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile/condition"
)

func TestTheNoteOfAnEventFits(t *testing.T) {
	for name, row := range map[string]struct{ message, want string }{
		"short":                           {"because", "because"},
		"as long as it may be":            {strings.Repeat("a", 1024), strings.Repeat("a", 1024)},
		"a byte too long":                 {strings.Repeat("a", 1025), strings.Repeat("a", 1021) + "…"},
		"much too long":                   {strings.Repeat("a", 4096), strings.Repeat("a", 1021) + "…"},
		"cut within a character":          {strings.Repeat("a", 1020) + strings.Repeat("é", 10), strings.Repeat("a", 1020) + "…"},
		"cut between two characters":      {strings.Repeat("a", 1019) + strings.Repeat("é", 10), strings.Repeat("a", 1019) + "é…"},
		"long for its bytes, not so many": {strings.Repeat("界", 400), strings.Repeat("界", 340) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			events := condition.Events(nil, []metav1.Condition{ready(metav1.ConditionFalse, "Failed", row.message)})
			if len(events) != 1 || events[0].Note != row.want {
				t.Fatalf("the events are %q, want one with %q", events, row.want)
			}
			if got := events[0].Note; len(got) > 1024 || !utf8.ValidString(got) {
				t.Errorf("the note has %d bytes, or half a character: %q", len(got), got)
			}
		})
	}
}
