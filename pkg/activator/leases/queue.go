// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"container/heap"
	"time"
)

// queue has entries by time, the earliest at index 0. An entry is in one queue at most.
type queue []*entry

// top returns the earliest, nil if there is none.
func (q queue) top() *entry {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

func (e *entry) join(q *queue, at time.Time) {
	e.queue, e.at = q, at
	heap.Push(q, e)
}

func (e *entry) leave() {
	if e.queue != nil {
		heap.Remove(e.queue, e.index)
		e.queue = nil
	}
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	e := x.(*entry) //nolint:forcetypeassert // join pushes nothing else
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
