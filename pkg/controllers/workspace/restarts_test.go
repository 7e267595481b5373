// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

// asks hands restart requests over in the background.
func (f *fixture) asks(cursor int64, hash string, workspaces ...string) (done chan error) {
	batch := clustercontrol.Batch{Cursor: cursor}
	for _, name := range workspaces {
		batch.Items = append(batch.Items, clustercontrol.RestartRequest{Namespace: "bank", Workspace: name, BinaryHash: hash})
	}
	done = make(chan error, 1)
	go func() { done <- f.desk.Take(f.t.Context(), batch) }()
	return done
}

// runs is the hash that the pods have.
func (f *fixture) runs() string {
	d, _ := live(f.kube.Tracker(), deploymentsResource, "bank", childName).(*appsv1.Deployment)
	return d.Spec.Template.Annotations[v1alpha1.AnnotationArtifactHash]
}

// The status first, then the Deployment, once.
func TestARestartIsRecordedBeforePodsRoll(t *testing.T) {
	running(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		pass(time.Second)
		f.rolledOut(2)
		pass(time.Second)
		f.sent()
		done := f.asks(7, "new", "shop", "unknown")
		pass(time.Second)
		if err := <-done; err != nil {
			t.Error(err)
		}
		f.expectRequests("status Workspace", "apply Deployment", "status Workspace")
		if got := f.runs(); got != "new" {
			t.Errorf("pods have %q", got)
		}
		f.queue.Add(shop) // the Deployment's status is as before: the server counts no generations
		pass(time.Second)
		f.expectRequests("status Workspace")

		done = f.asks(7, "new", "shop") // as after a failover
		pass(time.Hour)
		if err := <-done; err != nil {
			t.Error(err)
		}
		f.expectRequests()
		done = f.asks(6, "old", "shop")
		pass(time.Hour)
		if err := <-done; err != nil || f.runs() != "new" {
			t.Errorf("an older one: %v, pods have %q", err, f.runs())
		}
		f.expectRequests()
	})
}

// What the status cannot hold is not done, and is tried again.
func TestARestartThatCannotBeRecordedRollsNoPods(t *testing.T) {
	running(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		pass(time.Second)
		f.rolledOut(2)
		pass(time.Second)
		f.fail("status Workspace", apierrors.NewInternalError(errors.New("away")))
		done := f.asks(7, "new", "shop")
		pass(time.Minute)
		if err := <-done; err == nil || f.runs() != "" {
			t.Errorf("got %v, pods have %q", err, f.runs())
		}
	})
}

func TestARestartOfAWorkspaceThatGoes(t *testing.T) {
	run(t, []runtime.Object{aWorkspace(), aClass()}, func(f *fixture) {
		f.settle()
		done := f.asks(7, "new", "shop")
		synctest.Wait()
		if err := f.server.formspec.Tracker().Delete(workspacesResource, "bank", "shop"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.syncOnce(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil || f.desk.Newest(shop) != nil {
			t.Errorf("got %v, and %+v waits", err, f.desk.Newest(shop))
		}
	})
}
