// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metering

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// Grace is how long after its end a slot is best decided: the first reading after the end has then come.
const Grace = time.Minute

// maxReadings bounds what is kept of one pod or node: two hours at one reading in 15 s. The oldest give way.
const maxReadings = 480

// Workspace is what is metered. It has a record in every slot in which it existed, with zeros while it sleeps.
type Workspace struct {
	UID             types.UID
	Namespace, Name string
	Life            Life
	// StorageBytes of its datastores, or nil where no driver can tell.
	StorageBytes *int64
}

// Node is metered as well.
type Node struct {
	UID  types.UID
	Name string
	Life Life
}

// Pod is what a Workspace runs as. Life starts when its first container started and ends with its last; a pod without a start is not
// running yet.
type Pod struct {
	UID       types.UID
	Workspace types.UID
	Node      string
	Life      Life
}

// Book holds what was seen, for as long as a slot that is not decided may need it. Every replica keeps one, so that a new leader can decide
// slots of before its time. It is not safe for concurrent use.
type Book struct {
	workspaces map[types.UID]Workspace
	nodes      map[types.UID]Node
	pods       map[types.UID]Pod
	readings   map[types.UID][]Reading // by UID of pod or node
	since      time.Time               // of the last Forget
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{
		workspaces: map[types.UID]Workspace{}, nodes: map[types.UID]Node{}, pods: map[types.UID]Pod{}, readings: map[types.UID][]Reading{},
	}
}

// Workspace enters how a Workspace is. One that is gone has an end.
func (b *Book) Workspace(w Workspace) { b.workspaces[w.UID] = w }

// Node enters how a node is.
func (b *Book) Node(n Node) { b.nodes[n.UID] = n }

// Pod enters how a pod is. One that never started is left out, and so is one of which nothing but an untold end was seen: its node may have
// refused it. An end that was seen stays: a pod does not start again, nor end twice.
func (b *Book) Pod(p Pod) {
	old, known := b.pods[p.UID]
	if p.Life.Start.IsZero() || (p.Life.Untold && !known) {
		return
	}
	seen := !old.Life.End.IsZero() && (!old.Life.presumed || p.Life.Untold)
	if seen && (p.Life.End.IsZero() || old.Life.End.Before(p.Life.End)) {
		p.Life.End = old.Life.End
	}
	b.pods[p.UID] = p
}

// Owner is the UID of the Workspace whose pod it is. Empty: the pod is not known.
func (b *Book) Owner(pod types.UID) types.UID { return b.pods[pod].Workspace }

// Read enters a reading of a pod or node. One that is not newer than the last changes nothing.
func (b *Book) Read(uid types.UID, r Reading) {
	readings := b.readings[uid]
	if n := len(readings); n > 0 && !r.At.After(readings[n-1].At) {
		return
	}
	if len(readings) >= maxReadings {
		readings = slices.Delete(readings, 0, len(readings)-maxReadings+1)
	}
	b.readings[uid] = append(readings, r)
}

// Forget drops what no slot that starts at or after since needs: call it with the start of the oldest slot that is not decided.
func (b *Book) Forget(since time.Time) {
	b.since = since
	over := func(l Life) bool { return !l.End.IsZero() && !l.End.After(since) }
	for uid, w := range b.workspaces {
		if over(w.Life) {
			delete(b.workspaces, uid)
		}
	}
	for uid, n := range b.nodes {
		if over(n.Life) {
			delete(b.nodes, uid)
		}
	}
	for uid, p := range b.pods {
		if over(p.Life) {
			delete(b.pods, uid)
		}
	}
	for uid, readings := range b.readings {
		_, pod := b.pods[uid]
		_, node := b.nodes[uid]
		keep := slices.IndexFunc(readings, func(r Reading) bool { return r.At.After(since.Add(-Hold)) })
		switch {
		case keep < 0, !pod && !node:
			delete(b.readings, uid)
		case keep > 0: // the ones before are too old to be where one of these begins
			b.readings[uid] = slices.Clone(readings[keep:])
		}
	}
}

// Records returns one record for each Workspace and each node that existed in the slot, in a fixed order. Whoever computes them for the
// same slot gives them the same keys; the server takes the first.
func (b *Book) Records(cluster string, slot Slot) []clustercontrol.UsageRecord {
	byWorkspace, byNode := map[types.UID]Usage{}, map[string][]Life{}
	for _, uid := range slices.Sorted(maps.Keys(b.pods)) { // in one order: sums of floats depend on it
		p := b.pods[uid]
		u := Integrate(slot, p.Life, b.readings[uid])
		sum := byWorkspace[p.Workspace]
		sum.Add(u)
		byWorkspace[p.Workspace] = sum
		byNode[p.Node] = append(byNode[p.Node], p.Life)
	}
	records := make([]clustercontrol.UsageRecord, 0, len(b.workspaces)+len(b.nodes))
	for _, uid := range slices.Sorted(maps.Keys(b.workspaces)) {
		if w := b.workspaces[uid]; w.existed(slot) {
			u := byWorkspace[uid]
			r := record(cluster, slot, uid, u, u.PodSeconds > 0)
			r.Namespace, r.Workspace, r.StorageBytes = w.Namespace, w.Name, w.StorageBytes
			records = append(records, r)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(b.nodes)) {
		if n := b.nodes[uid]; slot.overlap(n.Life.Start, n.Life.End) > 0 {
			u := Integrate(slot, n.Life, b.readings[uid])
			u.PodSeconds = 0
			for _, pod := range byNode[n.Name] { // also of a node of this name before or after
				u.PodSeconds += slot.overlap(pod.within(n.Life)).Seconds()
			}
			r := record(cluster, slot, uid, u, true)
			r.Node = n.Name
			records = append(records, r)
		}
	}
	return records
}

// within is when both lived. The end can be before the start: never.
func (l Life) within(other Life) (start, end time.Time) {
	start, end = later(l.Start, other.Start), l.End
	if end.IsZero() || (!other.End.IsZero() && other.End.Before(end)) {
		end = other.End
	}
	return start, end
}

func (w Workspace) existed(slot Slot) bool { return slot.overlap(w.Life.Start, w.Life.End) > 0 }

// record states what was not measured as unknown, if anything ran.
func record(cluster string, slot Slot, uid types.UID, u Usage, ran bool) clustercontrol.UsageRecord {
	r := clustercontrol.UsageRecord{
		IdempotencyKey: clustercontrol.IdempotencyKey(cluster, uid, slot.Start),
		Slot:           clustercontrol.SlotName(slot.Start),
		UID:            uid,
		PodSeconds:     whole(u.PodSeconds),
	}
	if u.Measured || !ran {
		r.CPUMillicoreSeconds, r.MemoryByteSeconds = new(whole(u.CPUMillicoreSeconds)), new(whole(u.MemoryByteSeconds))
	}
	return r
}
