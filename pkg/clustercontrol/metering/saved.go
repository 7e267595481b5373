// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metering

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// kind of what lives.
type kind string

const (
	kindWorkspace kind = "workspace"
	kindNode      kind = "node"
	kindPod       kind = "pod"
)

// savedLife is what is kept of a Workspace, node or pod. So that two can be compared, times are nanoseconds since 1970, of which 0 is none,
// and stored bytes that nobody can tell are -1.
type savedLife struct {
	Kind         kind      `json:"kind"`
	UID          types.UID `json:"uid"`
	Namespace    string    `json:"namespace,omitempty"` // of a Workspace, as are
	StorageBytes int64     `json:"storageBytes,omitempty"`
	Name         string    `json:"name,omitempty"`      // of a Workspace or node
	Workspace    types.UID `json:"workspace,omitempty"` // of a pod, as is
	Node         string    `json:"node,omitempty"`
	Start        int64     `json:"start"`
	End          int64     `json:"end,omitempty"`
	Presumed     bool      `json:"presumed,omitempty"`
}

func saveWorkspace(w Workspace) savedLife {
	l := savedLife{Kind: kindWorkspace, UID: w.UID, Namespace: w.Namespace, Name: w.Name, StorageBytes: -1}
	if w.StorageBytes != nil {
		l.StorageBytes = *w.StorageBytes
	}
	return l.of(w.Life)
}

func saveNode(n Node) savedLife {
	return savedLife{Kind: kindNode, UID: n.UID, Name: n.Name}.of(n.Life)
}

func savePod(p Pod) savedLife {
	return savedLife{Kind: kindPod, UID: p.UID, Workspace: p.Workspace, Node: p.Node}.of(p.Life)
}

func (l savedLife) of(life Life) savedLife {
	l.Start, l.End, l.Presumed = saveTime(life.Start), saveTime(life.End), life.presumed
	return l
}

func (l savedLife) life() Life {
	return Life{Start: savedTime(l.Start), End: savedTime(l.End), presumed: l.Presumed}
}

// enter enters it into a book, with a life that may be another than the one that was saved.
func (l savedLife) enter(b *Book, life Life) {
	switch l.Kind {
	case kindWorkspace:
		w := Workspace{UID: l.UID, Namespace: l.Namespace, Name: l.Name, Life: life}
		if l.StorageBytes >= 0 {
			w.StorageBytes = &l.StorageBytes
		}
		b.Workspace(w)
	case kindNode:
		b.Node(Node{UID: l.UID, Name: l.Name, Life: life})
	case kindPod:
		b.Pod(Pod{UID: l.UID, Workspace: l.Workspace, Node: l.Node, Life: life})
	}
}

func decodeLife(data []byte) (savedLife, error) {
	var l savedLife
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("decode a life: %w", err)
	}
	if l.UID == "" || l.Kind != kindWorkspace && l.Kind != kindNode && l.Kind != kindPod {
		return l, fmt.Errorf("decode a life: kind %q with UID %q", l.Kind, l.UID)
	}
	return l, nil
}

// savedReadings are those that came since the last time, as columns: one element of each for one reading.
type savedReadings struct {
	// At is when they were saved, in nanoseconds since 1970. What then had not ended lived.
	At   int64       `json:"at"`
	UIDs []types.UID `json:"uids,omitempty"`
	// Ages are how many nanoseconds before At the readings are of.
	Ages   []int64 `json:"ages,omitempty"`
	CPU    []int64 `json:"cpu,omitempty"`
	Memory []int64 `json:"memory,omitempty"`
}

func (s *savedReadings) add(uid types.UID, r Reading) {
	s.UIDs = append(s.UIDs, uid)
	s.Ages = append(s.Ages, s.At-r.At.UnixNano())
	s.CPU = append(s.CPU, r.CPUMillicores)
	s.Memory = append(s.Memory, r.MemoryBytes)
}

func (s *savedReadings) reading(i int) Reading {
	return Reading{At: savedTime(s.At - s.Ages[i]), CPUMillicores: s.CPU[i], MemoryBytes: s.Memory[i]}
}

func decodeReadings(data []byte) (*savedReadings, error) {
	var s savedReadings
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("decode readings: %w", err)
	}
	if n := len(s.UIDs); s.At == 0 || len(s.Ages) != n || len(s.CPU) != n || len(s.Memory) != n {
		return nil, errors.New("decode readings: the columns differ in length, or have no time")
	}
	return &s, nil
}

func saveTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func savedTime(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds).UTC()
}
