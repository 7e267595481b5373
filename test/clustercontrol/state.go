// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// State is all that the server knows, at one moment. Lists are sorted by name, usage by slot, and the rest by age.
type State struct {
	Time          time.Time                 `json:"time"`
	TrustFirstUse bool                      `json:"trust_first_use"`
	Nodes         []Node                    `json:"nodes"`
	Workspaces    []Workspace               `json:"workspaces"`
	Registrations []Registration            `json:"registrations"`
	Usage         []Usage                   `json:"usage"`
	Restarts      []Restart                 `json:"restarts"`
	Violations    []Violation               `json:"violations"`
	Polls         map[string]Poll           `json:"polls"`    // by cluster
	Requests      map[Endpoint]int          `json:"requests"` // that are in the log
	Misbehaviour  map[Endpoint]Misbehaviour `json:"misbehaviour"`
}

// State returns what the server knows now. The caller may keep it, and must not change what maps and slices in it hold.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state()
}

// state is State while the lock is held.
func (s *Server) state() State {
	state := s.ledger.state()
	state.Time = s.options.Clock.Now()
	state.TrustFirstUse = s.options.TrustFirstUse
	state.Polls = maps.Clone(s.polls)
	state.Misbehaviour = s.modes.list()
	for i, node := range state.Nodes {
		state.Nodes[i].Dead = state.Time.Sub(node.LastBeat) > missedBeats*s.options.BeatInterval
	}
	return state
}

func (l *ledger) state() State {
	state := State{
		Nodes: sorted(l.nodes, func(a, b Node) int {
			return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name))
		}),
		Workspaces: sorted(l.workspaces, func(a, b Workspace) int {
			return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		}),
		Registrations: sorted(l.registrations, func(a, b Registration) int {
			return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
		}),
		Usage:      make([]Usage, 0, len(l.usage)),
		Restarts:   append([]Restart{}, l.restarts...),
		Requests:   maps.Clone(l.requests),
		Violations: append([]Violation{}, l.violations...),
	}
	for _, u := range l.usage {
		state.Usage = append(state.Usage, u.Usage)
	}
	slices.SortFunc(state.Usage, func(a, b Usage) int { return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.Key, b.Key)) })
	return state
}

func sorted[K comparable, V any](m map[K]V, compare func(a, b V) int) []V {
	values := slices.AppendSeq(make([]V, 0, len(m)), maps.Values(m)) // [] in JSON, if there are none
	slices.SortFunc(values, compare)
	return values
}
