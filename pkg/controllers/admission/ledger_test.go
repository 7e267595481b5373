// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
)

// start is when the first Workspace of every test is created.
var start = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)

// workspace is one of a class, created that many seconds after the start. Its UID is "uid of" and its name.
func workspace(name, class string, age int) *v1alpha1.Workspace {
	ns, short, found := strings.Cut(name, "/")
	if !found {
		ns, short = "bank", name
	}
	return &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: short, UID: types.UID("uid of " + name),
			CreationTimestamp: metav1.NewTime(start.Add(time.Duration(age) * time.Second)),
		},
		Spec: v1alpha1.WorkspaceSpec{ClusterClass: class},
	}
}

func limited(name string, limit int32) *v1alpha1.ClusterClass {
	return &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClassSpec{MaxWorkspaces: limit}}
}

// moved is the Workspace after somebody changed its class.
func moved(ws *v1alpha1.Workspace, class string) *v1alpha1.Workspace {
	ws = ws.DeepCopy()
	ws.Spec.ClusterClass = class
	return ws
}

// line is a ledger in which these Workspaces wait, none of whom has asked yet.
func line(workspaces ...*v1alpha1.Workspace) *admission.Ledger {
	ledger := admission.NewLedger()
	for _, ws := range workspaces {
		ledger.LineUp(ws)
	}
	return ledger
}

// enter lets each ask for a slot in turn, and returns the names of those that hold one afterwards.
func enter(ledger *admission.Ledger, class *v1alpha1.ClusterClass, workspaces ...*v1alpha1.Workspace) []string {
	var admitted []string
	for _, ws := range workspaces {
		if ledger.Enter(ws, class) {
			admitted = append(admitted, ws.Name)
		}
	}
	return admitted
}

func wantNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// listener is a Watcher that takes notes.
type listener struct {
	mu     sync.Mutex
	freed  []string
	counts []string
	ledger *admission.Ledger // asked in each call, so that a call with the lock would never return
}

func listen(ledger *admission.Ledger) *listener {
	l := &listener{ledger: ledger}
	ledger.Subscribe(l)
	return l
}

func (l *listener) SlotFreed(key cache.ObjectName) {
	l.ledger.Held("anybody")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freed = append(l.freed, key.Name)
}

func (l *listener) HoldersChanged(class string) {
	count := l.ledger.Admitted(class)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts = append(l.counts, fmt.Sprintf("%s=%d", class, count))
}

// told returns what the listener heard since it was last asked.
func (l *listener) told() (freed, counts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	freed, counts, l.freed, l.counts = l.freed, l.counts, nil, nil
	return freed, counts
}

func TestFreeSlotsGoToTheOldest(t *testing.T) {
	for name, row := range map[string]struct {
		limit int32
		ask   []*v1alpha1.Workspace // in this order
		want  []string
	}{
		"by creation": {
			2, []*v1alpha1.Workspace{workspace("c", "std", 3), workspace("b", "std", 2), workspace("a", "std", 1)}, []string{"b", "a"},
		},
		"created in the same second: by namespace": {
			1, []*v1alpha1.Workspace{workspace("shop/a", "std", 1), workspace("bank/z", "std", 1)}, []string{"z"},
		},
		"in one namespace: by name": {
			1, []*v1alpha1.Workspace{workspace("b", "std", 1), workspace("a", "std", 1)}, []string{"a"},
		},
		"age counts before names": {
			1, []*v1alpha1.Workspace{workspace("a/a", "std", 2), workspace("z/z", "std", 1)}, []string{"z"},
		},
		"as many slots as Workspaces": {
			3, []*v1alpha1.Workspace{workspace("c", "std", 3), workspace("b", "std", 2), workspace("a", "std", 1)}, []string{"c", "b", "a"},
		},
		"no limit": {
			0, []*v1alpha1.Workspace{workspace("c", "std", 3), workspace("b", "std", 2), workspace("a", "std", 1)}, []string{"c", "b", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ledger, class := line(row.ask...), limited("std", row.limit)
			wantNames(t, "admitted", enter(ledger, class, row.ask...), row.want...)
			if got := ledger.Admitted("std"); got != len(row.want) {
				t.Errorf("%d slots are held, want %d", got, len(row.want))
			}
		})
	}
}

func TestNamespacesAreComparedWhole(t *testing.T) {
	// "a-b/x" sorts before "a/x" as text: '-' comes before '/'.
	first, second := workspace("a/x", "std", 1), workspace("a-b/x", "std", 1)
	ledger := line(first, second)
	if ledger.Enter(second, limited("std", 1)) {
		t.Error("namespace a-b was served before namespace a")
	}
	if !ledger.Enter(first, limited("std", 1)) {
		t.Error("namespace a was not served")
	}
}

func TestAdmissionIsSticky(t *testing.T) {
	a, b, c := workspace("a", "std", 1), workspace("b", "std", 2), workspace("c", "std", 3)
	ledger := line(a, b, c)
	wantNames(t, "admitted to three slots", enter(ledger, limited("std", 3), a, b, c), "a", "b", "c")
	lower := limited("std", 1)
	wantNames(t, "admitted once the limit is lower", enter(ledger, lower, c, b, a), "c", "b", "a")
	older, younger := workspace("older", "std", 0), workspace("younger", "std", 9)
	ledger.LineUp(older)
	ledger.LineUp(younger)
	wantNames(t, "newly admitted", enter(ledger, lower, older, younger))
	ledger.Release(a.UID)
	ledger.Release(b.UID)
	wantNames(t, "newly admitted while as many as the limit run", enter(ledger, lower, older, younger))
	ledger.Release(c.UID)
	wantNames(t, "newly admitted to the free slot", enter(ledger, lower, younger, older), "older")
}

func TestARaisedLimitAdmitsTheOldest(t *testing.T) {
	a, b, c, d := workspace("a", "std", 1), workspace("b", "std", 2), workspace("c", "std", 3), workspace("d", "std", 4)
	ledger := line(a, b, c, d)
	wantNames(t, "admitted to one slot", enter(ledger, limited("std", 1), d, c, b, a), "a")
	wantNames(t, "admitted to two more", enter(ledger, limited("std", 3), d, c, b), "c", "b")
	wantNames(t, "admitted once there is no limit", enter(ledger, limited("std", 0), d), "d")
}

func TestAFreedSlotWakesTheNextInTheLine(t *testing.T) {
	a, b, c, d := workspace("a", "std", 1), workspace("b", "std", 2), workspace("c", "std", 3), workspace("d", "std", 4)
	ledger, class := line(a, b, c, d), limited("std", 1)
	l := listen(ledger)
	wantNames(t, "admitted", enter(ledger, class, d, c, b, a), "a")
	l.told()
	ledger.Release(a.UID)
	freed, counts := l.told()
	wantNames(t, "woken", freed, "b")
	wantNames(t, "counts", counts, "std=0")
	wantNames(t, "admitted", enter(ledger, class, d, c), []string(nil)...)
	wantNames(t, "admitted", enter(ledger, class, b), "b")
	ledger.Release(d.UID) // it was deleted while it waited
	ledger.Release(b.UID)
	l.told()
	wantNames(t, "admitted", enter(ledger, class, c), "c")
}

func TestTwoFreedSlotsWakeTwo(t *testing.T) {
	a, b, c, d := workspace("a", "std", 1), workspace("b", "std", 2), workspace("c", "std", 3), workspace("d", "std", 4)
	ledger, class := line(a, b, c, d), limited("std", 2)
	l := listen(ledger)
	wantNames(t, "admitted", enter(ledger, class, d, c, b, a), "b", "a")
	l.told()
	ledger.Release(a.UID)
	ledger.Release(b.UID)
	// Whoever is woken enters, and that wakes the next.
	var admitted []string
	for range 10 {
		freed, _ := l.told()
		for _, name := range freed {
			admitted = append(admitted, enter(ledger, class, map[string]*v1alpha1.Workspace{"c": c, "d": d}[name])...)
		}
	}
	slices.Sort(admitted)
	wantNames(t, "admitted without being asked by anybody else", slices.Compact(admitted), "c", "d")
}

func TestNobodyIsWokenWhileEverybodyIsOnTheWay(t *testing.T) {
	a, b := workspace("a", "std", 1), workspace("b", "std", 2)
	ledger := line(a, b)
	l := listen(ledger)
	enter(ledger, limited("std", 0), a)
	if freed, _ := l.told(); len(freed) > 0 {
		t.Errorf("woke %q, who has not been turned away", freed)
	}
}

func TestAWithdrawnWorkspaceHoldsNobodyUp(t *testing.T) {
	a, b := workspace("a", "std", 1), workspace("b", "std", 2)
	ledger, class := line(a, b), limited("std", 1)
	l := listen(ledger)
	wantNames(t, "admitted before the older one", enter(ledger, class, b))
	l.told()
	ledger.Withdraw(a)
	freed, _ := l.told()
	wantNames(t, "woken", freed, "b")
	ledger.Observe(a) // its status changed: it says why it cannot run
	wantNames(t, "admitted once the older one is withdrawn", enter(ledger, class, b), "b")

	// Once it could run, it is in its old place.
	c := workspace("c", "std", 3)
	ledger.LineUp(c)
	ledger.LineUp(a)
	ledger.Release(b.UID)
	wantNames(t, "admitted", enter(ledger, class, c, a), "a")
}

func TestWithdrawingAHolderFreesNothing(t *testing.T) {
	a, b := workspace("a", "std", 1), workspace("b", "std", 2)
	ledger, class := line(a, b), limited("std", 1)
	enter(ledger, class, a)
	ledger.Withdraw(a) // its spec became invalid; what runs keeps running
	wantNames(t, "admitted", enter(ledger, class, b))
	wantNames(t, "admitted", enter(ledger, class, a), "a")
}

func TestAChangeOfClassKeepsTheOldSlotUntilTheNewClassAdmits(t *testing.T) {
	std, pro := limited("std", 1), limited("pro", 1)
	a, b, owner := workspace("a", "std", 1), workspace("b", "std", 2), workspace("owner", "pro", 0)
	ledger := line(a, b, owner)
	enter(ledger, std, a, b)
	enter(ledger, pro, owner)

	a = moved(a, "pro")
	ledger.LineUp(a)
	wantNames(t, "admitted to the full class", enter(ledger, pro, a))
	if got := ledger.Held(a.UID); got != "std" {
		t.Errorf("while it waits it holds a slot of %q, want std", got)
	}
	wantNames(t, "admitted to the slot that it left", enter(ledger, std, b))

	ledger.Release(owner.UID)
	wantNames(t, "admitted", enter(ledger, pro, a), "a")
	if held, left := ledger.Held(a.UID), ledger.Admitted("std"); held != "pro" || left != 0 {
		t.Errorf("it holds a slot of %q and %d of std are held, want pro and none", held, left)
	}
	wantNames(t, "admitted to the slot that is free now", enter(ledger, std, b), "b")
}

func TestAHolderThatWantsAnotherClassHasItsPlaceInThatLine(t *testing.T) {
	a, b := workspace("a", "std", 1), workspace("b", "pro", 2)
	ledger, pro := line(a, b), limited("pro", 1)
	enter(ledger, limited("std", 1), a)
	ledger.LineUp(moved(a, "pro"))
	wantNames(t, "admitted before the older one", enter(ledger, pro, b))
	wantNames(t, "admitted", enter(ledger, pro, moved(a, "pro")), "a")
}

func TestWhoeverGoesBackToItsOwnClassHoldsNobodyUp(t *testing.T) {
	std, pro := limited("std", 1), limited("pro", 1)
	a, b, owner := workspace("a", "std", 1), workspace("b", "pro", 2), workspace("owner", "pro", 0)
	ledger := line(a, b, owner)
	l := listen(ledger)
	enter(ledger, std, a)
	enter(ledger, pro, owner)
	enter(ledger, pro, moved(a, "pro"), b)
	wantNames(t, "admitted", enter(ledger, std, a), "a") // back again
	ledger.Release(owner.UID)
	freed, _ := l.told()
	wantNames(t, "woken last", freed[len(freed)-1:], "b")
	wantNames(t, "admitted", enter(ledger, pro, b), "b")
}

func TestADeletingClassAdmitsNobodyNew(t *testing.T) {
	for _, limit := range []int32{0, 5} {
		a, b := workspace("a", "std", 1), workspace("b", "std", 2)
		ledger, class := line(a, b), limited("std", limit)
		enter(ledger, class, a)
		going := class.DeepCopy()
		going.DeletionTimestamp = new(metav1.NewTime(start))
		wantNames(t, "admitted", enter(ledger, going, a, b), "a")
		wantNames(t, "admitted to a class of that name that came later", enter(ledger, class, b), "b")
	}
}

func TestWhatAStatusSaysIsHeld(t *testing.T) {
	admitted := func(status v1alpha1.WorkspaceStatus) *v1alpha1.Workspace {
		ws := workspace("a", "std", 1)
		ws.Status = status
		return ws
	}
	condition := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: status}}
	}
	for name, row := range map[string]struct {
		ws   *v1alpha1.Workspace
		want string
	}{
		"nothing":                         {admitted(v1alpha1.WorkspaceStatus{}), ""},
		"the class":                       {admitted(v1alpha1.WorkspaceStatus{AdmittedClass: "std"}), "std"},
		"the class that it had before":    {admitted(v1alpha1.WorkspaceStatus{AdmittedClass: "pro", Conditions: condition(metav1.ConditionFalse)}), "pro"},
		"the condition, without a class":  {admitted(v1alpha1.WorkspaceStatus{Conditions: condition(metav1.ConditionTrue)}), "std"},
		"that it is not, without a class": {admitted(v1alpha1.WorkspaceStatus{Conditions: condition(metav1.ConditionFalse)}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			for what, see := range map[string]func(*admission.Ledger, *v1alpha1.Workspace){
				"Observe": (*admission.Ledger).Observe, "LineUp": (*admission.Ledger).LineUp,
			} {
				ledger := admission.NewLedger()
				see(ledger, row.ws)
				if got := ledger.Held(row.ws.UID); got != row.want {
					t.Errorf("after %s it holds a slot of %q, want %q", what, got, row.want)
				}
				ledger.Release(row.ws.UID)
				if got := ledger.Held(row.ws.UID); got != "" {
					t.Errorf("after its release it holds a slot of %q", got)
				}
			}
		})
	}
}

func TestOurOwnDecisionIsNewerThanAnyStatus(t *testing.T) {
	a := workspace("a", "std", 1)
	ledger := line(a)
	enter(ledger, limited("std", 1), a)
	enter(ledger, limited("pro", 1), moved(a, "pro"))
	old := a.DeepCopy()
	old.Status.AdmittedClass = "std"
	ledger.Observe(old)
	ledger.LineUp(old)
	if got := ledger.Held(a.UID); got != "pro" {
		t.Errorf("an old status made it hold a slot of %q, want pro", got)
	}
}

func TestADeletedWorkspaceLeavesTheLineAndKeepsItsSlot(t *testing.T) {
	a, b, c := workspace("a", "std", 1), workspace("b", "std", 2), workspace("c", "std", 3)
	ledger, class := line(a, b, c), limited("std", 1)
	enter(ledger, class, a)
	for _, ws := range []*v1alpha1.Workspace{a, b} {
		ws.DeletionTimestamp = new(metav1.NewTime(start))
		ledger.LineUp(ws)
	}
	wantNames(t, "admitted while the holder terminates", enter(ledger, class, c))
	ledger.Release(a.UID)
	wantNames(t, "admitted before the one that was deleted in the line", enter(ledger, class, c), "c")
}

func TestReleasingTwiceFreesOneSlot(t *testing.T) {
	a, b, c := workspace("a", "std", 1), workspace("b", "std", 2), workspace("c", "std", 3)
	ledger, class := line(a, b, c), limited("std", 2)
	enter(ledger, class, a, b, c)
	ledger.Release(a.UID)
	ledger.Release(a.UID)
	ledger.Release("a stranger")
	if got := ledger.Admitted("std"); got != 1 {
		t.Errorf("%d slots are held, want 1", got)
	}
}

// Many syncs ask at once, Workspaces come and go, limits change. A counter outside the ledger sees who runs.
func TestTheLimitHoldsWhateverRaces(t *testing.T) {
	const (
		limit      = 3
		workspaces = 40
		rounds     = 25
	)
	ledger, class := admission.NewLedger(), limited("std", limit)
	l := listen(ledger)
	var running, most atomic.Int64
	var wg sync.WaitGroup
	for i := range workspaces {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for round := range rounds {
				ws := workspace(fmt.Sprintf("ns-%d/%d-%d", i%4, i, round), "std", random.IntN(10))
				ledger.LineUp(ws)
				for !ledger.Enter(ws, class) {
					if random.IntN(20) == 0 {
						ledger.Withdraw(ws)
						ledger.LineUp(ws)
					}
					if random.IntN(200) == 0 { // deleted while it waited
						break
					}
				}
				if ledger.Held(ws.UID) == "std" {
					now := running.Add(1)
					for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
					}
					running.Add(-1)
				}
				ledger.Release(ws.UID)
			}
		})
	}
	wg.Wait()
	if most.Load() > limit || most.Load() == 0 {
		t.Errorf("%d ran at once, want at most %d", most.Load(), limit)
	}
	if got := ledger.Admitted("std"); got != 0 {
		t.Errorf("%d slots are held by nobody", got)
	}
	if _, counts := l.told(); len(counts) == 0 {
		t.Error("nobody was told of any change")
	}
}

func BenchmarkEnterFullClass(b *testing.B) {
	ledger, class := admission.NewLedger(), limited("std", 1)
	var all []*v1alpha1.Workspace
	for i := range 1000 {
		all = append(all, workspace(fmt.Sprintf("w%d", i), "std", i))
		ledger.LineUp(all[i])
	}
	ledger.Enter(all[0], class)
	for i := 0; b.Loop(); i++ {
		ledger.Enter(all[1+i%999], class)
	}
}
