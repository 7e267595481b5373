// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

// NotesConfigMap is the ConfigMap in the operator's own namespace that holds the Notes.
const NotesConfigMap = "formspec-operator-reports"

// The data keys of the ConfigMap.
const (
	keyRegistered    = "registered"
	keyMeteredUntil  = "metered-until"
	keyRestartsAfter = "restarts-after"
)

// Notes are what a leader leaves to the next one. The zero value is that of a cluster that has never reported.
type Notes struct {
	// Registered are the ids that Cluster Control may know. One goes when its deregistration was accepted.
	Registered sets.Set[clustercontrol.ID]
	// MeteredUntil is the end of the last slot that was accepted, as were all before it.
	MeteredUntil time.Time
	// RestartsAfter is the cursor up to which every restart request is in the status of its Workspace.
	RestartsAfter int64
}

// parseNotes reads the data of the ConfigMap. What cannot be read counts as absent, which costs repetition and loses nothing but
// deregistrations.
func parseNotes(data map[string]string) Notes {
	n := Notes{Registered: sets.New[clustercontrol.ID]()}
	for line := range strings.Lines(data[keyRegistered]) {
		if kind, id, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			n.Registered.Insert(clustercontrol.ID{Kind: clustercontrol.Kind(kind), ID: id})
		}
	}
	n.MeteredUntil, _ = time.Parse(time.RFC3339, data[keyMeteredUntil])
	n.RestartsAfter, _ = strconv.ParseInt(data[keyRestartsAfter], 10, 64)
	n.RestartsAfter = max(0, n.RestartsAfter)
	return n
}

func (n Notes) data() map[string]string {
	data := map[string]string{}
	var lines strings.Builder
	for _, id := range slices.SortedFunc(slices.Values(n.Registered.UnsortedList()), report.CompareIDs) {
		fmt.Fprintf(&lines, "%s %s\n", id.Kind, id.ID)
	}
	if lines.Len() > 0 {
		data[keyRegistered] = lines.String()
	}
	if !n.MeteredUntil.IsZero() {
		data[keyMeteredUntil] = n.MeteredUntil.UTC().Format(time.RFC3339)
	}
	if n.RestartsAfter > 0 {
		data[keyRestartsAfter] = strconv.FormatInt(n.RestartsAfter, 10)
	}
	return data
}

func (n Notes) clone() Notes {
	n.Registered = n.Registered.Clone()
	return n
}

const (
	notesTimeout = 5 * time.Second  // of one request
	notesRetry   = 15 * time.Second // after one that failed
)

// notebook keeps the leader's Notes in the ConfigMap. Its one writer is the leader, so nothing is read before it is written.
type notebook struct {
	read      kubernetes.Interface
	write     kubernetes.Interface
	namespace string
	clock     clock.WithTicker

	mu      sync.Mutex // held while writing: what is noted first is written first
	notes   Notes
	written bool // the ConfigMap is as notes are
	failing bool // said already
}

// look reads the ConfigMap, without keeping it.
func (b *notebook) look(ctx context.Context) (Notes, error) {
	ctx, cancel := context.WithTimeout(ctx, notesTimeout)
	defer cancel()
	config, err := b.read.CoreV1().ConfigMaps(b.namespace).Get(ctx, NotesConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return parseNotes(nil), nil
	}
	if err != nil {
		return Notes{}, fmt.Errorf("read ConfigMap %s: %w", NotesConfigMap, err)
	}
	return parseNotes(config.Data), nil
}

// open reads what the last leader has left.
func (b *notebook) open(ctx context.Context) error {
	notes, err := b.look(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes, b.written = notes, true
	return nil
}

// get returns the notes, which the caller may change.
func (b *notebook) get() Notes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notes.clone()
}

// note changes the notes and writes them if they differ. What could not be written is written later by run: reports do not wait for it.
func (b *notebook) note(ctx context.Context, change func(*Notes)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.notes.data()
	change(&b.notes)
	if after := b.notes.data(); b.written && maps.Equal(before, after) {
		return
	}
	b.written = false
	b.save(ctx)
}

// save writes the notes. The lock is held.
func (b *notebook) save(ctx context.Context) {
	write, cancel := context.WithTimeout(ctx, notesTimeout)
	defer cancel()
	_, err := b.write.CoreV1().ConfigMaps(b.namespace).Apply(write,
		corev1ac.ConfigMap(NotesConfigMap, b.namespace).
			WithLabels(map[string]string{"app.kubernetes.io/name": "formspec-operator"}).
			WithData(b.notes.data()),
		metav1.ApplyOptions{FieldManager: Name, Force: true})
	switch {
	case err == nil:
		b.written, b.failing = true, false
	case ctx.Err() == nil && !b.failing:
		b.failing = true
		klog.FromContext(ctx).Error(err, "Cannot note what was reported; it is tried again, and reports go on", "configMap", NotesConfigMap)
	}
}

// run writes what could not be written at once, until ctx ends.
func (b *notebook) run(ctx context.Context) {
	ticker := b.clock.NewTicker(notesRetry)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		b.mu.Lock()
		if !b.written {
			b.save(ctx)
		}
		b.mu.Unlock()
	}
}
