// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package subset_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/formspec/formspec-operator/pkg/reconcile/subset"
)

func pods(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
	}
	return list
}

func key(i int) string { return fmt.Sprintf("5f3c%08d-6f1e-4b7e-9d53-0a1b2c3d4e5f", i) }

func TestAllServeWhileTheyAreFew(t *testing.T) {
	for n := range 4 {
		if got := subset.Pick(key(1), pods(n), 3); !slices.Equal(got, pods(n)) {
			t.Errorf("of %d: %v", n, got)
		}
	}
	if got := subset.Pick(key(1), []string{"b", "a", "b", "a"}, 3); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("of two that are named twice: %v", got)
	}
	if got := subset.Pick(key(1), pods(5), 0); len(got) != 0 {
		t.Errorf("none asked for, got %v", got)
	}
}

func TestTheOrderDoesNotMatter(t *testing.T) {
	members := pods(9)
	want := subset.Pick(key(7), members, 3)
	slices.Reverse(members)
	if got := subset.Pick(key(7), members, 3); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if members[0] != "10.0.0.8" {
		t.Error("the caller's list was changed")
	}
}

// The score is part of how replicas and versions agree, so it is pinned.
func TestTheChoiceIsTheSameForEver(t *testing.T) {
	want := []string{"pod-a", "pod-c", "pod-e"}
	if got := subset.Pick("f0d1c1aa-8a0e-4d5c-a8be-5d0c1f6f2f10", []string{"pod-a", "pod-b", "pod-c", "pod-d", "pod-e"}, 3); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAMemberThatGoesMovesOnlyWhatItServed(t *testing.T) {
	const keys, members, n = 2000, 10, 3
	gone := pods(members)[4]
	rest := slices.DeleteFunc(pods(members), func(m string) bool { return m == gone })
	moved := 0
	for i := range keys {
		before, after := subset.Pick(key(i), pods(members), n), subset.Pick(key(i), rest, n)
		if !slices.Contains(before, gone) {
			if !slices.Equal(before, after) {
				t.Fatalf("key %d moved from %v to %v, and had nothing to do with %s", i, before, after, gone)
			}
			continue
		}
		moved++
		for _, m := range before {
			if m != gone && !slices.Contains(after, m) {
				t.Fatalf("key %d lost %s when %s went: %v, then %v", i, m, gone, before, after)
			}
		}
	}
	// About 3 in 10 were served by it. The bounds are wide and the keys are fixed, so this fails only if the choice is not even.
	if moved < keys*2/10 || moved > keys*4/10 {
		t.Errorf("%d of %d keys were served by one of %d members", moved, keys, members)
	}
}

func TestANewMemberMovesLittle(t *testing.T) {
	const keys, members, n = 2000, 10, 3
	moved := 0
	for i := range keys {
		before, after := subset.Pick(key(i), pods(members), n), subset.Pick(key(i), pods(members+1), n)
		changed := 0
		for _, m := range after {
			if !slices.Contains(before, m) {
				changed++
			}
		}
		if changed > 1 {
			t.Fatalf("one new member changed %d of %v", changed, after)
		}
		moved += changed
	}
	if moved < keys*2/11 || moved > keys*4/11 {
		t.Errorf("a new member took over %d of %d keys, want about %d", moved, keys, keys*n/(members+1))
	}
}
