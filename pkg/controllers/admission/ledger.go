// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Ledger knows who holds a slot of which class, and who waits for one.
type Ledger struct {
	mu      sync.Mutex
	held    map[types.UID]string // the class whose slot a Workspace holds
	count   map[string]int       // slots held by class
	waiting map[string]map[types.UID]candidate
	refused map[string]bool    // somebody in the line of the class was turned away
	gone    map[types.UID]bool // released while holders are being read; nil at other times
	watch   []Watcher
	changed []string // classes to tell the watchers about, once the lock is free
}

// Watcher is told what changed, without the ledger's lock.
type Watcher interface {
	// SlotFreed: this Workspace may be next.
	SlotFreed(key cache.ObjectName)
	// HoldersChanged: the number of slots that are held has changed.
	HoldersChanged(class string)
}

// candidate is a Workspace that waits, with its place in the line.
type candidate struct {
	key     cache.ObjectName
	created time.Time
}

// before is the order of the line: by creation, then namespace, then name.
func (c candidate) before(other candidate) bool {
	if !c.created.Equal(other.created) {
		return c.created.Before(other.created)
	}
	return cmp.Or(cmp.Compare(c.key.Namespace, other.key.Namespace), cmp.Compare(c.key.Name, other.key.Name)) < 0
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{held: map[types.UID]string{}, count: map[string]int{}, waiting: map[string]map[types.UID]candidate{}, refused: map[string]bool{}}
}

// Subscribe adds a watcher. It must be called before the ledger is used.
func (l *Ledger) Subscribe(w Watcher) { l.watch = append(l.watch, w) }

// AdmittedClass is the class that a Workspace's own status says it is admitted to. Empty: none.
func AdmittedClass(ws *v1alpha1.Workspace) string {
	if ws.Status.AdmittedClass == "" && meta.IsStatusConditionTrue(ws.Status.Conditions, v1alpha1.ConditionAdmitted) {
		return ws.Spec.ClusterClass
	}
	return ws.Status.AdmittedClass
}

// Observe takes note of the slot that a Workspace holds by its status. Once it holds one here, our own decision is newer than any status.
func (l *Ledger) Observe(ws *v1alpha1.Workspace) {
	defer l.lock()()
	l.observe(ws)
}

// LineUp takes note of a Workspace that may have become a candidate: it is new, or its spec or its class changed. It waits in the line of its
// class, unless it holds one of its slots; if it could not run after all, its sync withdraws it.
func (l *Ledger) LineUp(ws *v1alpha1.Workspace) {
	defer l.lock()()
	l.observe(ws)
	if ws.DeletionTimestamp != nil || l.held[ws.UID] == ws.Spec.ClusterClass {
		l.leave(ws.UID)
	} else {
		l.wait(ws)
	}
}

func (l *Ledger) observe(ws *v1alpha1.Workspace) {
	if _, holds := l.held[ws.UID]; holds {
		return
	}
	if class := AdmittedClass(ws); class != "" {
		l.leave(ws.UID)
		l.hold(ws.UID, class)
	}
}

// seed takes note of who holds a slot, from a consistent read. The Workspace itself may be gone already.
func (l *Ledger) seed(uid types.UID, class string) {
	defer l.lock()()
	if l.held[uid] != class && !l.gone[uid] {
		l.leave(uid)
		l.hold(uid, class)
	}
}

// Enter says whether the Workspace holds a slot of its class, and gives it one if it is next in the line and a slot is free.
func (l *Ledger) Enter(ws *v1alpha1.Workspace, class *v1alpha1.ClusterClass) bool {
	defer l.lock()()
	if l.held[ws.UID] == class.Name {
		l.leave(ws.UID) // another class's line, in which it waited
		return true
	}
	me := l.wait(ws)
	if !l.free(class, me) {
		l.refused[class.Name] = true
		return false
	}
	l.leave(ws.UID)
	l.hold(ws.UID, class.Name)
	return true
}

// free says whether there is a slot for the candidate, those before it in the line considered.
func (l *Ledger) free(class *v1alpha1.ClusterClass, me candidate) bool {
	limit := int(class.Spec.MaxWorkspaces)
	if class.DeletionTimestamp != nil || limit == 0 {
		return class.DeletionTimestamp == nil
	}
	slots := limit - l.count[class.Name]
	return slots > 0 && (len(l.waiting[class.Name]) <= slots || l.ahead(class.Name, me) < slots)
}

// Withdraw takes a Workspace out of the line that could not run if it were admitted, so that it holds nobody up.
func (l *Ledger) Withdraw(ws *v1alpha1.Workspace) {
	defer l.lock()()
	l.leave(ws.UID)
}

// Release gives the slot of a Workspace back, and its place in the line.
func (l *Ledger) Release(uid types.UID) {
	defer l.lock()()
	l.leave(uid)
	l.drop(uid)
	if l.gone != nil {
		l.gone[uid] = true
	}
}

// Held says which class's slot the Workspace holds. Empty: none.
func (l *Ledger) Held(uid types.UID) string {
	defer l.lock()()
	return l.held[uid]
}

// Admitted counts the slots of a class that are held.
func (l *Ledger) Admitted(class string) int {
	defer l.lock()()
	return l.count[class]
}

// lock returns what unlocks, and then tells the watchers what changed meanwhile.
func (l *Ledger) lock() (unlock func()) {
	l.mu.Lock()
	return func() {
		var next []cache.ObjectName
		for _, class := range l.changed {
			next = append(next, l.first(class)...)
		}
		changed := l.changed
		l.changed = nil
		l.mu.Unlock()
		for _, w := range l.watch {
			for _, class := range changed {
				w.HoldersChanged(class)
			}
			for _, key := range next {
				w.SlotFreed(key)
			}
		}
	}
}

// hold gives the Workspace a slot of the class, and frees the one of the class that it came from.
func (l *Ledger) hold(uid types.UID, class string) {
	l.drop(uid)
	l.held[uid] = class
	l.count[class]++
	l.changed = append(l.changed, class)
}

func (l *Ledger) drop(uid types.UID) {
	class, holds := l.held[uid]
	if !holds {
		return
	}
	delete(l.held, uid)
	if l.count[class]--; l.count[class] == 0 {
		delete(l.count, class)
	}
	l.changed = append(l.changed, class)
}

// first finds who is first in the line of the class, if anybody waits.
func (l *Ledger) first(class string) []cache.ObjectName {
	if !l.refused[class] {
		return nil // everybody in the line is on the way anyway
	}
	var first *candidate
	for _, c := range l.waiting[class] {
		if first == nil || c.before(*first) {
			first = &c
		}
	}
	if first == nil {
		delete(l.refused, class)
		return nil
	}
	return []cache.ObjectName{first.key}
}

// wait puts the Workspace into the line of its class, at the place that its creation gives it.
func (l *Ledger) wait(ws *v1alpha1.Workspace) candidate {
	me := candidate{key: cache.MetaObjectToName(ws), created: ws.CreationTimestamp.Time}
	line := l.waiting[ws.Spec.ClusterClass]
	if _, waits := line[ws.UID]; waits {
		return me
	}
	l.leave(ws.UID) // another class's
	if line == nil {
		line = map[types.UID]candidate{}
		l.waiting[ws.Spec.ClusterClass] = line
	}
	line[ws.UID] = me
	return me
}

// leave takes the Workspace out of whichever line it is in.
func (l *Ledger) leave(uid types.UID) {
	for class, line := range l.waiting {
		if _, waits := line[uid]; !waits {
			continue
		}
		if delete(line, uid); len(line) == 0 {
			delete(l.waiting, class)
		}
		l.changed = append(l.changed, class)
		return
	}
}

// ahead counts those who are before me in the line.
func (l *Ledger) ahead(class string, me candidate) int {
	n := 0
	for _, other := range l.waiting[class] {
		if other.before(me) {
			n++
		}
	}
	return n
}
