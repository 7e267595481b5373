// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package subset gives each Workspace a few activator pods of its own. Were all pods in the EndpointSlice of each sleeping Workspace, one
// pod more or less would cost a write for each of thousands of them; and one tenant's flood would reach every pod.
package subset

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Size is how many activator pods serve a Workspace, if there are as many.
const Size = 3

// Pick returns the n of members that serve key, sorted; all of them, if they are no more than n. It is rendezvous hashing: each member
// has a score for each key, and the n highest serve. So a member that goes is replaced only where it served, a new one displaces only where
// it scores high, and the order of members does not matter. A key is a Workspace's UID; a member is the name or the address of a pod.
//
// Source: Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996.
func Pick(key string, members []string, n int) []string {
	all := slices.Clone(members)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) <= n {
		return all
	}
	type scored struct {
		member string
		score  uint64
	}
	ranked := make([]scored, len(all))
	for i, member := range all {
		ranked[i] = scored{member, score(key, member)}
	}
	slices.SortFunc(ranked, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.member, b.member))
	})
	picked := all[:0]
	for _, r := range ranked[:max(n, 0)] {
		picked = append(picked, r.member)
	}
	slices.Sort(picked)
	return picked
}

// score is the same in every process and every version: another function would move all Workspaces at once.
func score(key, member string) uint64 {
	sum := sha256.Sum256([]byte(key + "\x00" + member))
	return binary.BigEndian.Uint64(sum[:])
}
