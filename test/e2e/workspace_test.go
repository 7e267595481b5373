// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// A Workspace of a class without features runs, as the user and with the files of the contract, and answers through its Service. The
// executable in the data folder is what a read-only root filesystem must still allow.
func TestWorkspace(t *testing.T) {
	t.Parallel()
	s := given(t)
	shop := s.workspace("shop", s.class()).serving()

	have := fetch[seen](shop, "/some/path")
	if have.Workspace != "shop" || have.UID != 65532 || have.Pod != shop.pods()[0].Name {
		t.Errorf("the pod says %+v", have)
	}
	if have.Handler.Executable != "/var/lib/formspec/handler" || have.Handler.UID != 65532 {
		t.Errorf("the executable in the data folder says %+v", have.Handler)
	}
	for key, want := range map[string]string{"workspace": "shop", "environment": realEnvironment, "region": ""} {
		if value, ok := have.Handler.Config[key]; !ok || value != want {
			t.Errorf("in /etc/formspec %s is %q (%t), want %q", key, value, ok, want)
		}
	}
	if names := fetch[[]string](shop, "/env"); len(names) != 1 || names[0] != "FORMSPEC_DATA_DIR" {
		t.Errorf("without claims there are the variables %v", names)
	}
}

// A slow start is waited for and not killed, and the Workspace is not Ready before.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	const delay = 4 * time.Second
	s := given(t)
	var all []*podLog
	for _, mode := range []string{"closed", "unavailable"} {
		class := s.class(func(class *v1alpha1.ClusterClass) {
			class.Spec.ResourceImage = s.image("START_DELAY="+delay.String(), "START_MODE="+mode)
		})
		all = append(all, s.workspace(mode, class).watchPods())
	}
	for _, pods := range all {
		pod := pods.nextReady()
		pods.ready()
		pods.were(pod.name)
		if after := pod.ready.Sub(pod.created); after < delay {
			t.Errorf("%s: the pod was Ready %s after its creation, and needs %s to start", pods.name, after, delay)
		}
	}
}

// Real and simulated nodes work side by side.
func TestSimulatedWorkspace(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.class()
	for _, w := range []*tenant{s.workspace("real", class), s.workspace("simulated", class, simulated)} {
		w.ready()
		pod := w.pods()[0]
		if onReal := pod.Spec.NodeName == s.cluster.node; onReal != (w.name == "real") {
			t.Errorf("the pod of Workspace %s is on node %s", w.name, pod.Spec.NodeName)
		}
	}
}
