// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/identity"
)

// noted is the data of the ConfigMap.
func (w *world) noted() map[string]string {
	w.t.Helper()
	config, err := w.kube.CoreV1().ConfigMaps(ownNamespace).Get(context.Background(), NotesConfigMap, metav1.GetOptions{})
	w.must(err)
	return config.Data
}

// left makes the ConfigMap as an earlier leader has left it.
func left(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ownNamespace, Name: NotesConfigMap}, Data: data}
}

func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.registrations
	w.registrations = nil
	return list
}

func wants(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestStandbyReportsNothing(t *testing.T) {
	inWorld(t, []runtime.Object{aNode("n1"), aWorkspace("web")}, func(t *testing.T, w *world) {
		pass(time.Hour)
		if told := w.snapshot(); len(told.beats)+len(told.registrations)+len(told.statuses)+len(told.usage) > 0 {
			t.Errorf("it reports %+v", told)
		}
		for _, action := range w.kube.Actions() {
			if !slices.Contains([]string{"list", "watch"}, action.GetVerb()) {
				t.Errorf("it asks %s %s", action.GetVerb(), action.GetResource().Resource)
			}
		}
	})
}

func TestRegistrar(t *testing.T) {
	inWorld(t, []runtime.Object{aNode("n1"), aDatastore("pg", v1alpha1.DriverPostgres), aDatastore("kv", v1alpha1.DriverValkey)}, func(t *testing.T, w *world) {
		defer w.leads()()
		wants(t, "the first", w.told(), "register cache bank/kv", "register datastore bank/pg", "register node n1")
		if got := w.noted()[keyRegistered]; got != "cache bank/kv\ndatastore bank/pg\nnode n1\n" {
			t.Errorf("noted: %q", got)
		}

		node := aNode("n1")
		node.Status.Conditions = nil // which is no part of the registration
		_, err := w.kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		w.must(err)
		pass(time.Minute)
		wants(t, "a change that is none", w.told())
		node.Labels["formspec.dev/region"] = "jakarta"
		_, err = w.kube.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
		w.must(err)
		pass(time.Minute)
		wants(t, "a change", w.told(), "register node n1")

		back := w.away()
		w.must(w.kube.CoreV1().Nodes().Delete(t.Context(), "n1", metav1.DeleteOptions{}))
		pass(time.Hour)
		wants(t, "a node that goes", w.told(), "deregister node n1")
		if got := w.noted()[keyRegistered]; !strings.Contains(got, "node n1") {
			t.Errorf("noted before the deregistration was accepted: %q", got)
		}
		back()
		pass(time.Minute)
		if got := w.noted()[keyRegistered]; strings.Contains(got, "node n1") {
			t.Errorf("noted after: %q", got)
		}
	})
}

func TestRegistrarTellsAnewOnceItIsTrusted(t *testing.T) {
	inWorld(t, []runtime.Object{aNode("n1")}, func(t *testing.T, w *world) {
		defer w.leads()()
		w.told()
		w.leader.Trusted()
		pass(time.Minute)
		wants(t, "told", w.told(), "register node n1")
		pass(time.Hour)
		wants(t, "later", w.told())
	})
}

func TestWhatWentWhileNobodyLed(t *testing.T) {
	inWorld(t, []runtime.Object{left(map[string]string{keyRegistered: "node n0\nnode n1\ncache bank/old\nnonsense\n"}), aNode("n1")}, func(t *testing.T, w *world) {
		w.unsentRegistrations = []clustercontrol.ID{{Kind: clustercontrol.KindNode, ID: "n9"}, {Kind: clustercontrol.KindNode, ID: "n1"}}
		w.unsentStatuses = []clustercontrol.StatusRecord{{Namespace: "bank", Workspace: "old", UID: "old", Phase: "Ready"}}
		defer w.leads()()
		pass(time.Minute)
		wants(t, "told", w.told(), "deregister node n9", "deregister cache bank/old", "deregister node n0", "register node n1")
		if got := w.noted()[keyRegistered]; got != "node n1\n" {
			t.Errorf("noted: %q", got)
		}
		if statuses := w.snapshot().statuses; len(statuses) != 1 || statuses[0].Phase != "Terminating" || statuses[0].UID != "old" {
			t.Errorf("statuses: %+v", statuses)
		}
	})
}

func TestBeats(t *testing.T) {
	objects := []runtime.Object{aNode("n2"), aNode("n1"), aWorkspace("web"), aPod("web-1", "web", "n1"), aPod("web-2", "web", "n1"), aPod("api-1", "api", "n1")}
	ended := aPod("job-1", "job", "n1")
	ended.Status.Phase = corev1.PodSucceeded
	inWorld(t, append(objects, ended), func(t *testing.T, w *world) {
		defer w.leads()()
		pass(time.Minute)
		beats := w.snapshot().beats
		if len(beats) != 5 {
			t.Fatalf("%d beats in a minute", len(beats))
		}
		first := beats[0]
		if len(first) != 2 || first[0].Node != "n1" || first[0].Workspaces != 2 || first[1].Workspaces != 0 || first[0].Status != clustercontrol.HealthHealthy {
			t.Errorf("%+v", first)
		}
		if first[0].Usage == nil || first[0].Usage.CPUMillicores != 100 {
			t.Errorf("usage %+v", first[0].Usage)
		}
		w.broken.Store(true)
		pass(10 * time.Minute)
		beats = w.snapshot().beats
		if last := beats[len(beats)-1]; last[0].Usage != nil {
			t.Errorf("usage without a metrics API: %+v", last[0].Usage)
		}
		before := w.readings.Load()
		pass(time.Hour)
		if n := w.readings.Load() - before; n > 61 {
			t.Errorf("a metrics API that is not there is asked %d times an hour", n)
		}
	})
}

func TestLeaderMakesTheIdentity(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		var down atomic.Bool
		down.Store(true)
		w.kube.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return down.Load(), nil, errors.New("the API server is away")
		})
		defer w.leads()()
		pass(time.Minute)
		down.Store(false)
		pass(time.Minute)
		if _, err := identity.Read(t.Context(), w.kube, ownNamespace); err != nil {
			t.Error(err)
		}
	})
}

// Restart requests are read from where all before are recorded.
func TestCursorOfRestarts(t *testing.T) {
	inWorld(t, []runtime.Object{left(map[string]string{keyRestartsAfter: "41"})}, func(t *testing.T, w *world) {
		recorded := errors.New("not recorded")
		w.leader.restarts = func(context.Context, clustercontrol.Batch) error { return recorded }
		w.polled = func(after int64, take clustercontrol.Take) {
			if after != 41 {
				t.Errorf("it asks for what came after %d", after)
			}
			if err := take(t.Context(), clustercontrol.Batch{Cursor: 43}); !errors.Is(err, recorded) {
				t.Errorf("got %v", err)
			}
			if got := w.noted()[keyRestartsAfter]; got != "41" {
				t.Errorf("noted %s before the requests were recorded", got)
			}
			recorded = nil
			if err := take(t.Context(), clustercontrol.Batch{Cursor: 43}); err != nil {
				t.Error(err)
			}
		}
		w.leads()()
		if got := w.noted()[keyRestartsAfter]; got != "43" {
			t.Errorf("noted %s", got)
		}
	})
}

// What cannot be noted holds nothing up, and is noted later.
func TestNotesThatCannotBeWritten(t *testing.T) {
	inWorld(t, []runtime.Object{aNode("n1")}, func(t *testing.T, w *world) {
		var down atomic.Bool
		down.Store(true)
		w.kube.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			return down.Load(), nil, errors.New("forbidden")
		})
		defer w.leads()()
		wants(t, "told", w.told(), "register node n1")
		down.Store(false)
		pass(time.Minute)
		if got := w.noted()[keyRegistered]; got != "node n1\n" {
			t.Errorf("noted: %q", got)
		}
	})
}
