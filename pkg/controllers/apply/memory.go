// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// Memory remembers the resourceVersions that the syncs of each key wrote, until the caches have seen them. It keeps a sync from deciding
// on what was true before its own last write, and an event from waking a key that caused it. It also remembers what became of writes that
// no cache will tell: which were changed on their way in, and whose namespace is going.
type Memory struct {
	mu        sync.Mutex
	written   map[cache.ObjectName][]mark
	rewritten map[childName]reconcile.Rewritten
	leaving   map[cache.ObjectName]leaving
}

// leaving is an object in a namespace that is being deleted, and what said so.
type leaving struct {
	uid types.UID
	err error
}

// childName is one child of one key, which may have several of a kind.
type childName struct {
	key        cache.ObjectName
	kind, name string
}

type mark struct {
	store   Store
	version string
}

// Store is the part of an informer's store that says how far it has come. An empty version (the fake clientset) counts as up to date.
type Store interface {
	LastStoreSyncResourceVersion() string
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{written: map[cache.ObjectName][]mark{}, rewritten: map[childName]reconcile.Rewritten{}, leaving: map[cache.ObjectName]leaving{}}
}

// Wrote remembers that the sync of key got this resourceVersion from a write that the store's informer will see.
func (m *Memory) Wrote(key cache.ObjectName, store Store, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written[key] = append(m.written[key], mark{store, version})
}

// Stale says whether a cache is behind what the key's syncs wrote. What the caches have seen is forgotten.
func (m *Memory) Stale(key cache.ObjectName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	var behind []mark
	for _, w := range m.written[key] {
		if !reached(w.store.LastStoreSyncResourceVersion(), w.version) {
			behind = append(behind, w)
		}
	}
	if len(behind) == 0 {
		delete(m.written, key)
		return false
	}
	m.written[key] = behind
	return true
}

// Echo says whether an event only shows what the key's own sync wrote, and forgets that write: the cache has seen it.
func (m *Memory) Echo(key cache.ObjectName, version string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	marks := m.written[key]
	i := slices.IndexFunc(marks, func(w mark) bool { return w.version == version })
	if i < 0 {
		return false
	}
	if marks = slices.Delete(marks, i, i+1); len(marks) == 0 {
		delete(m.written, key)
	} else {
		m.written[key] = marks
	}
	return true
}

// Forget drops what is remembered of a key whose object is gone.
func (m *Memory) Forget(key cache.ObjectName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, key)
	delete(m.leaving, key)
	for child := range m.rewritten {
		if child.key == key {
			delete(m.rewritten, child)
		}
	}
}

// Send sends a write of the key's object, unless it creates something in a namespace that is known to be going since the last attempt of this
// object: a namespace never comes back, so that the answer is known, too. What is there can still be changed.
func (m *Memory) Send(key cache.ObjectName, uid types.UID, write reconcile.Write, send func() (Result, error)) (Result, error) {
	if !write.Create {
		return send()
	}
	m.mu.Lock()
	known := m.leaving[key]
	m.mu.Unlock()
	if known.uid == uid && known.err != nil {
		return Result{}, known.err
	}
	result, err := send()
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.leaving[key] = leaving{uid, err}
	}
	return result, err
}

// Rewrote remembers that something changed the key's last write of a child, or, without got, that nothing did.
func (m *Memory) Rewrote(key cache.ObjectName, asked, got reconcile.Config, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	child := childName{key, ptr.Deref(asked.GetKind(), ""), ptr.Deref(asked.GetName(), "")}
	if got == nil {
		delete(m.rewritten, child)
		return
	}
	m.rewritten[child] = reconcile.Rewritten{
		Asked: reconcile.Fingerprint(asked), Got: reconcile.Fingerprint(got), Fields: reconcile.Differences(asked, got), At: at,
	}
}

// Rewritten is what was remembered of the key's last write of a child. Nil: it arrived as it was sent.
func (m *Memory) Rewritten(key cache.ObjectName, kind, name string) *reconcile.Rewritten {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, found := m.rewritten[childName{key, kind, name}]; found {
		return &r
	}
	return nil
}

func reached(seen, written string) bool {
	if seen == "" || written == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(seen, written)
	return err != nil || order >= 0
}
