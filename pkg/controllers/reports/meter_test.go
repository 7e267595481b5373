// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// billed are the records of a Workspace or node since the last time, as slot, millicore seconds and pod seconds.
func (w *world) billed(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for _, u := range w.usage {
		if u.Workspace != name && u.Node != name {
			continue
		}
		cpu := "unknown"
		if u.CPUMillicoreSeconds != nil {
			cpu = strconv.FormatInt(*u.CPUMillicoreSeconds, 10)
		}
		list = append(list, fmt.Sprintf("%s %s %d", u.Slot[11:16], cpu, u.PodSeconds))
	}
	w.usage = nil
	return list
}

func TestMeter(t *testing.T) {
	inWorld(t, []runtime.Object{aNode("n1"), aWorkspace("web"), aPod("web-1", "web", "n1"), aWorkspace("asleep")}, func(t *testing.T, w *world) {
		defer w.leads()()
		pass(5*time.Minute + 59*time.Second)
		wants(t, "too early", w.billed("web"))
		pass(2 * time.Second)
		wants(t, "the first slot", w.billed("web"), "00:00 30000 300")
		if got := w.noted()[keyMeteredUntil]; got != "2000-01-01T00:05:00Z" {
			t.Errorf("noted %q", got)
		}
		pass(time.Minute) // 00:07:01
		w.must(w.kube.CoreV1().Pods("bank").Delete(t.Context(), "web-1", metav1.DeleteOptions{}))
		_, err := w.kube.CoreV1().Pods("bank").Create(t.Context(), aPod("web-2", "web", "n1"), metav1.CreateOptions{})
		w.must(err)
		pass(19 * time.Second)
		w.must(w.kube.CoreV1().Pods("bank").Delete(t.Context(), "web-2", metav1.DeleteOptions{}))
		pass(4 * time.Minute)
		wants(t, "a slot in which pods ended", w.billed("web"), "00:05 14000 140")
		pass(5 * time.Minute)
		wants(t, "a slot without any", w.billed("web"), "00:10 0 0")
		pass(5 * time.Minute)
		wants(t, "a Workspace that sleeps", w.billed("asleep"), "00:15 0 0")
		pass(5 * time.Minute)
		wants(t, "a node", w.billed("n1"), "00:20 30000 0")
	})
}

func TestMeterWithoutAMetricsAPI(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web"), aPod("web-1", "web", "n1")}, func(t *testing.T, w *world) {
		w.broken.Store(true)
		defer w.leads()()
		pass(20 * time.Minute)
		w.billed("web") // of which it has one reading
		pass(5 * time.Minute)
		wants(t, "a slot", w.billed("web"), "00:15 unknown 300")
	})
}

// A Workspace that goes is metered to its end, and its pods, which end later, are no successor's.
func TestMeterOfAWorkspaceThatGoes(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web"), aPod("web-1", "web", "n1")}, func(t *testing.T, w *world) {
		defer w.leads()()
		pass(6*time.Minute + time.Second)
		w.billed("web")
		workspaces := w.formspec.FormspecV1alpha1().Workspaces("bank")
		w.must(workspaces.Delete(t.Context(), "web", metav1.DeleteOptions{}))
		_, err := workspaces.Create(t.Context(), aWorkspace("web", func(ws *v1alpha1.Workspace) { ws.UID = "successor" }), metav1.CreateOptions{})
		w.must(err)
		pass(19 * time.Second)
		w.must(w.kube.CoreV1().Pods("bank").Delete(t.Context(), "web-1", metav1.DeleteOptions{}))
		pass(5 * time.Minute)
		usage := w.snapshot().usage
		if len(usage) != 2 {
			t.Fatalf("%+v", usage)
		}
		for _, u := range usage {
			if want := map[string]int64{"successor": 0, "uid-web": 80}[string(u.UID)]; u.PodSeconds != want {
				t.Errorf("%s has %d pod seconds, want %d", u.UID, u.PodSeconds, want)
			}
		}
		pass(5 * time.Minute)
		wants(t, "the next slot is the successor's", w.billed("web"), "00:05 0 0", "00:05 8000 80", "00:10 0 0")
	})
}

// A replica that starts between the two knows the predecessor by the age of its pods only.
func TestPodsOfAPredecessor(t *testing.T) {
	inWorld(t, []runtime.Object{aPod("web-1", "web", "n1")}, func(t *testing.T, w *world) {
		pass(time.Minute)
		_, err := w.formspec.FormspecV1alpha1().Workspaces("bank").Create(t.Context(), aWorkspace("web"), metav1.CreateOptions{})
		w.must(err)
		defer w.leads()()
		pass(5*time.Minute + time.Second)
		wants(t, "the successor", w.billed("web"), "00:00 0 0")
	})
}

// A new leader has the samples of before its time, and goes on where the last one's slots were accepted.
func TestMeterOfANewLeader(t *testing.T) {
	for name, row := range map[string]struct {
		notes map[string]string
		held  []clustercontrol.UsageRecord
		want  []string
	}{
		"the last one had sent nothing": {map[string]string{keyMeteredUntil: "2000-01-01T00:00:00Z"}, nil, []string{"00:00 30000 300", "00:05 30000 300"}},
		"the last one had sent a slot":  {map[string]string{keyMeteredUntil: "2000-01-01T00:05:00Z"}, nil, []string{"00:05 30000 300"}},
		"the last one had sent all":     {map[string]string{keyMeteredUntil: "2000-01-01T00:10:00Z"}, nil, nil},
		"its own outbox has a record": {
			map[string]string{keyMeteredUntil: "2000-01-01T00:00:00Z"},
			[]clustercontrol.UsageRecord{{Slot: "2000-01-01T00:05:00Z", IdempotencyKey: "jkt/uid-web/2000-01-01T00:05:00Z"}},
			[]string{"00:00 30000 300"},
		},
		"its own outbox has another's record of a slot": {
			map[string]string{keyMeteredUntil: "2000-01-01T00:00:00Z"},
			[]clustercontrol.UsageRecord{{Slot: "2000-01-01T00:05:00Z", IdempotencyKey: "jkt/uid-api/2000-01-01T00:05:00Z"}},
			[]string{"00:00 30000 300", "00:05 30000 300"},
		},
		"there was none": {nil, nil, []string{"00:00 30000 300", "00:05 30000 300"}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if row.notes != nil {
				objects = append(objects, left(row.notes))
			}
			inWorld(t, objects, func(t *testing.T, w *world) {
				w.unsentUsage = row.held
				_, err := w.formspec.FormspecV1alpha1().Workspaces("bank").Create(t.Context(), aWorkspace("web"), metav1.CreateOptions{})
				w.must(err)
				_, err = w.kube.CoreV1().Pods("bank").Create(t.Context(), aPod("web-1", "web", "n1"), metav1.CreateOptions{})
				w.must(err)
				pass(11*time.Minute + time.Second)
				defer w.leads()()
				wants(t, "metered", w.billed("web"), row.want...)
			})
		})
	}
}

// What another leader's term has settled is not sent from an outbox of before.
func TestUsageThatWasAcceptedIsForgotten(t *testing.T) {
	inWorld(t, []runtime.Object{left(map[string]string{keyMeteredUntil: "1999-12-31T23:50:00Z"})}, func(t *testing.T, w *world) {
		w.unsentUsage = []clustercontrol.UsageRecord{
			{Slot: "1999-12-31T23:45:00Z", IdempotencyKey: "accepted"},
			{Slot: "1999-12-31T23:50:00Z", IdempotencyKey: "waits"},
			{Slot: "nonsense", IdempotencyKey: "of-another-version"},
		}
		defer w.leads()()
		wants(t, "forgotten", w.snapshot().forgotten, "accepted")
	})
}

// In an outage slots are handed over as ever, and noted afterwards.
func TestMeterInAnOutage(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web")}, func(t *testing.T, w *world) {
		defer w.leads()()
		pass(6*time.Minute + time.Second)
		back := w.away()
		pass(time.Hour)
		if n := len(w.billed("web")); n != 13 {
			t.Errorf("%d slots in an hour and a slot", n)
		}
		if got := w.noted()[keyMeteredUntil]; got != "2000-01-01T00:05:00Z" {
			t.Errorf("noted meanwhile: %q", got)
		}
		back()
		pass(time.Second)
		pass(time.Second)
		if got := w.noted()[keyMeteredUntil]; got != "2000-01-01T01:05:00Z" {
			t.Errorf("noted afterwards: %q", got)
		}
	})
}

// A leader that ends well leaves nothing to decide again.
func TestMeterNotesWhatWasAcceptedWhileItEnds(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web")}, func(t *testing.T, w *world) {
		resign := w.leads()
		w.away() // for ever, as far as Wait goes; but the outbox is empty in the end
		pass(6*time.Minute + time.Second)
		resign()
		if got := w.noted()[keyMeteredUntil]; got != "2000-01-01T00:05:00Z" {
			t.Errorf("noted %q", got)
		}
	})
}

func TestBookIsSmall(t *testing.T) {
	inWorld(t, []runtime.Object{aWorkspace("web"), aPod("web-1", "web", "n1")}, func(t *testing.T, w *world) {
		pass(24 * time.Hour) // a standby of a leader that never gets anything accepted
		slots := 0
		defer w.leads()()
		for range w.billed("web") {
			slots++
		}
		if slots < 20 || slots > 24 {
			t.Errorf("%d slots are decided after a day, want those of about two hours", slots)
		}
	})
}
