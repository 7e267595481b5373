// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// create, delete: of a pod of the Workspace web.
func (w *world) createPod(name string) {
	w.t.Helper()
	_, err := w.kube.CoreV1().Pods("bank").Create(w.t.Context(), aPod(name, "web", "n1"), metav1.CreateOptions{})
	w.must(err)
}

func (w *world) deletePod(name string) {
	w.t.Helper()
	w.must(w.kube.CoreV1().Pods("bank").Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// Nobody lives through the slot, and it is metered in full: what each process has seen, and once.
func TestKilledWithinASlot(t *testing.T) {
	inWorld(t, []runtime.Object{aNode("n1"), aWorkspace("web"), aPod("web-1", "web", "n1"), left(map[string]string{keyMeteredUntil: "2000-01-01T00:00:00Z"})},
		func(t *testing.T, w *world) {
			pass(20 * time.Second)
			w.createPod("web-2")
			pass(40 * time.Second)
			w.deletePod("web-2")
			w.millicores.Store(200)
			pass(3*time.Minute + 50*time.Second) // the last reading was five seconds ago
			w.kill()
			pass(10 * time.Second)
			w.millicores.Store(400)
			w.start()
			defer w.leads()()
			pass(time.Minute + time.Second)
			// web-1: 60 s at 100 (its first reading is of when it began), 225 s at 200, then 15 s at 400. web-2: 40 s at 100.
			wants(t, "the slot", w.billed("web"), "00:00 61000 340")
			pass(5 * time.Minute)
			wants(t, "the next one", w.billed("web"), "00:05 120000 300")
		})
}

// The restart is in the next slot, and the cluster has never metered.
func TestKilledInTheFirstSlot(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web"), aPod("web-1", "web", "n1")}, func(t *testing.T, w *world) {
		pass(4*time.Minute + 50*time.Second)
		w.kill()
		pass(20 * time.Second)
		w.start()
		defer w.leads()()
		pass(time.Minute)
		wants(t, "the slot", w.billed("web"), "00:00 30000 300")
	})
}

// A Workspace that went before the kill has pods that go after it.
func TestKilledWhileAWorkspaceGoes(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web"), aPod("web-1", "web", "n1")}, func(t *testing.T, w *world) {
		pass(time.Minute)
		w.must(w.formspec.FormspecV1alpha1().Workspaces("bank").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		pass(30 * time.Second)
		w.kill()
		w.start()
		pass(30 * time.Second)
		w.deletePod("web-1")
		defer w.leads()()
		pass(4*time.Minute + time.Second)
		wants(t, "the slot", w.billed("web"), "00:00 12000 120")
		pass(5 * time.Minute)
		wants(t, "the next one", w.billed("web"))
	})
}

// The disk has kept less than was written: what a slot then lacks is at most what the lost samples were of. Without any, the first reading,
// at 00:04:25, stands for Hold before it, and nobody knows of web-2.
func TestKilledWithADamagedOutbox(t *testing.T) {
	for name, row := range map[string]struct {
		damage func(content []byte) []byte
		want   string
	}{
		"none":                   {func(content []byte) []byte { return content }, "00:00 34000 340"},
		"the last batch is torn": {func(content []byte) []byte { return content[:len(content)-1] }, "00:00 34000 340"},
		"no file":                {func([]byte) []byte { return nil }, "00:00 21500 300"},
		"another file":           {func([]byte) []byte { return []byte("not an outbox") }, "00:00 21500 300"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{aWorkspace("web"), aPod("web-1", "web", "n1"), left(map[string]string{keyMeteredUntil: "2000-01-01T00:00:00Z"})}
			inWorld(t, objects, func(t *testing.T, w *world) {
				w.createPod("web-2")
				pass(40 * time.Second)
				w.deletePod("web-2")
				pass(3*time.Minute + 45*time.Second)
				w.kill()
				journal := filepath.Join(w.dir, "outbox.journal")
				content, err := os.ReadFile(journal)
				w.must(err)
				w.must(os.WriteFile(journal, row.damage(content), 0o600))
				w.start()
				defer w.leads()()
				pass(2 * time.Minute)
				wants(t, "the slot", w.billed("web"), row.want)
			})
		})
	}
}

// The next process is started with another interval: no time is metered twice, and what it cuts anew is in full.
func TestKilledAndStartedWithAnotherInterval(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web"), aPod("web-1", "web", "n1")}, func(t *testing.T, w *world) {
		resign := w.leads()
		pass(6*time.Minute + time.Second)
		wants(t, "before", w.billed("web"), "00:00 30000 300")
		pass(59 * time.Second)
		w.createPod("web-2")
		pass(20 * time.Second)
		w.deletePod("web-2")
		pass(30 * time.Second)
		w.kill()
		resign()
		w.interval = 2 * time.Minute
		w.start()
		defer w.leads()()
		pass(4 * time.Minute)
		wants(t, "afterwards, but for 00:04, which overlaps", w.billed("web"), "00:06 14000 140", "00:08 12000 120")
	})
}
