// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/test/clustercontrol"
)

func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// Nodes, datastores, statuses and usage arrive, signed and verified, and a restart that is asked for happens once.
func reportsArrive(t *testing.T, env *environment) {
	t.Helper()
	const secret = "hunter2"
	s := givenIn(t, env)
	s.alone()
	s.usage()
	c := s.control()
	one := c.reporter("reports-one")
	c.trusts()

	me, class := s.publishedOwner(), s.class(func(class *v1alpha1.ClusterClass) { class.Spec.Scaling.MinReplicas = 2 })
	files := me.datastore("files", v1alpha1.DriverFS, "/srv/files?token="+secret, func(ds *v1alpha1.Datastore) { ds.Spec.Capacity.StorageGB = 7 })
	me.datastore("cache", v1alpha1.DriverMemory, "memory://"+secret)
	me.grant("files", "files", "shop")
	shop := s.workspace("shop", class, func(ws *v1alpha1.Workspace) { ws.Spec.Owner = secret }).ready()

	t.Run("nodes", func(t *testing.T) {
		nodes, err := s.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		s.must("list the nodes", err)
		c.hears("all nodes are well", func(state clustercontrol.State) error {
			if len(state.Nodes) != len(nodes.Items) {
				return fmt.Errorf("%d of %d nodes are known", len(state.Nodes), len(nodes.Items))
			}
			var workspaces int64
			for _, node := range state.Nodes {
				if node.Status != "healthy" || node.Dead || node.Allocatable.CPUMillicores == 0 || node.Usage == nil || node.Usage.CPUMillicores != nodeMillicores {
					return fmt.Errorf("%+v", node)
				}
				workspaces += node.Workspaces
				if err := registered(state, "node", node.Name, true); err != nil {
					return err
				}
			}
			if workspaces < 1 {
				return errors.New("no Workspace is on a node")
			}
			return nil
		})
	})
	t.Run("a node that is cordoned", func(t *testing.T) {
		node := shop.pods()[0].Spec.NodeName
		s.kubectl("cordon", node)
		t.Cleanup(func() { s.kubectl("uncordon", node) })
		c.hears("it is degraded", func(state clustercontrol.State) error {
			for _, n := range state.Nodes {
				if n.Name == node && n.Status == "degraded" && slices.Equal(n.Reasons, []string{"Cordoned"}) {
					return nil
				}
			}
			return fmt.Errorf("%+v", state.Nodes)
		})
	})
	t.Run("datastores", func(*testing.T) {
		c.hears("they are registered", func(state clustercontrol.State) error {
			return errors.Join(registered(state, "datastore", s.namespace+"/files", true), registered(state, "cache", s.namespace+"/cache", true))
		})
	})
	t.Run("the status", func(*testing.T) {
		c.hears("shop is Ready", func(state clustercontrol.State) error {
			w, err := heard(state, "shop")
			if err == nil && (w.Phase != "Ready" || w.ReadyReplicas != 2 || w.DesiredReplicas != 2 || w.Condition("Ready").Status != "True") {
				err = fmt.Errorf("%+v", w)
			}
			return err
		})
	})
	t.Run("usage", func(*testing.T) {
		c.hears("shop used what its pods did", func(state clustercontrol.State) error {
			err := errors.New("there is no slot of it")
			for _, u := range state.Usage {
				if u.Workspace == "shop" {
					if err = used(u, 2*slotLength.Seconds()); err == nil {
						return nil
					}
				}
			}
			return err
		})
		c.hears("a node used what it did", func(state clustercontrol.State) error {
			for _, u := range state.Usage {
				if u.Node != "" && u.CPUMillicoreSeconds != nil && *u.CPUMillicoreSeconds == nodeMillicores*int64(slotLength/time.Second) {
					return nil
				}
			}
			return errors.New("there is no slot of a node")
		})
	})

	restart := func(hash string) {
		_, err := c.RequestRestart(clustercontrol.Restart{
			Cluster: clusterName, Namespace: s.namespace, Workspace: "shop", BinaryHash: hash, ArtifactID: "loan-api", Version: "2.4.1",
		})
		s.must("ask for a restart", err)
	}
	consumed := func(cursor int64) {
		c.hears(fmt.Sprintf("restart %d is consumed", cursor), func(state clustercontrol.State) error {
			if r := state.Restarts[cursor-1]; !r.Consumed {
				w, err := heard(state, "shop")
				return errors.Join(err, fmt.Errorf("%+v, %+v", r, w))
			}
			return nil
		})
	}
	t.Run("a restart", func(t *testing.T) {
		before := shop.podUIDs()
		restart("sha256:7f83b165")
		consumed(1)
		shop.hasRevisions(2)
		if left := shop.podUIDs().Intersection(before); left.Len() > 0 {
			t.Errorf("it is consumed, and the pods %v of before are there", left)
		}
		if a := shop.get().Status.Artifact; a == nil || a.Hash != "sha256:7f83b165" || a.Version != "2.4.1" || a.Cursor != 1 {
			t.Errorf("the status has the artifact %+v", a)
		}
	})
	t.Run("a restart that is asked for while nobody leads", func(*testing.T) {
		one.kill()
		restart("sha256:first")
		restart("sha256:second")
		one = c.reporter("reports-one")
		consumed(3)
		consumed(2) // by the newer one
		shop.hasRevisions(3)
		s.must("read the hash", shop.hasHash("sha256:second"))
	})
	t.Run("what goes", func(*testing.T) {
		files.delete()
		shop.delete(metav1.DeletePropagationBackground)
		c.hears("they are gone", func(state clustercontrol.State) error {
			w, err := heard(state, "shop")
			if err == nil && w.Phase != "Terminating" {
				err = fmt.Errorf("%+v", w)
			}
			return errors.Join(err, registered(state, "datastore", s.namespace+"/files", false))
		})
	})
	t.Run("a datastore that goes while nobody leads", func(*testing.T) {
		one.signal(syscall.SIGTERM)
		_, err := one.wait(patience)
		s.must("end the leader", err)
		s.kubectl("delete", "datastores.formspec.dev", "cache")
		one = c.reporter("reports-one")
		c.hears("it is gone", func(state clustercontrol.State) error { return registered(state, "cache", s.namespace+"/cache", false) })
	})
	s.must("keep the contract", c.kept())
	c.verified(secret, "postgres://", "/srv/files", "message")
}

// A Cluster Control that nothing gets through to affects nobody. FR-01, FR-49.
func clusterControlIsAway(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	s.alone()
	black := s.replica("away", "--control-cluster-url", fmt.Sprintf("https://127.0.0.1:%d", s.droppingServer()),
		"--workspace-control-cluster-url", "https://control.example.com", "--metering-interval", slotLength.String())
	class := s.class()
	const shops = 10
	burst := func(prefix string) []request {
		start := s.now()
		var all []*tenant
		for i := range shops {
			all = append(all, s.workspace(fmt.Sprintf("%s-%d", prefix, i), class))
		}
		for _, w := range all {
			w.ready()
		}
		return s.sent(start, request.write, func(r request) bool { return strings.Contains(r.Object.Name, prefix) && r.resource() != "events" })
	}
	s.eventually("the operator notices", func() error {
		if !strings.Contains(black.scrape(s), "formspec_cluster_control_reachable 0") {
			return errors.New("it does not say so")
		}
		return nil
	})

	// then
	kinds := func(requests []request) map[string]int {
		count := map[string]int{}
		for _, r := range requests {
			if r.Object.Subresource == "" { // statuses are written more or less often, as things come together
				count[r.resource()]++
			}
		}
		return count
	}
	away := burst("away")
	if lines := strings.Count(black.grep("Cluster Control is not reachable", 100), "\n"); lines != 1 {
		t.Errorf("the log tells %d times that it is away, want once", lines)
	}
	s.eventually("there is an Event", func() error {
		if events := s.kubectl("get", "events", "--field-selector", "involvedObject.kind=Lease", "-o", "yaml"); !strings.Contains(events, "ClusterControlUnreachable") {
			return errors.New("there is none")
		}
		return nil
	})
	me := s.publishedOwner()
	me.datastore("files", v1alpha1.DriverFS, "/srv/files").ready()
	me.grant("files", "files", "away-0")

	// when
	black.stop()
	s.replica("unconnected")
	without := burst("unconnected")
	if a, b := kinds(away), kinds(without); len(a) == 0 || !maps.Equal(a, b) {
		t.Errorf("it writes %v while Cluster Control is away, and %v without any", a, b)
	}
}

// kubectl delete ns ends while Cluster Control is black-holed. FR-01.
func namespaceGoesWhileClusterControlIsAway(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	s.alone()
	doomed := s.namespace + "-doomed"
	s.createNamespace(doomed)
	inner := &scenario{T: t, environment: s.environment, namespace: doomed}
	s.replica("deleter", "--namespace", s.namespace+","+doomed, "--metering-interval", slotLength.String(),
		"--control-cluster-url", fmt.Sprintf("https://127.0.0.1:%d", s.droppingServer()))
	me, class := inner.publishedOwner(), s.class()
	me.datastore("files", v1alpha1.DriverFS, "/srv/files").ready()
	me.grant("files", "files", "shop")
	inner.workspace("shop", class).ready()

	// when
	s.must("delete the namespace", s.kube.CoreV1().Namespaces().Delete(t.Context(), doomed, metav1.DeleteOptions{}))

	// then
	s.within(time.Minute, "the namespace is gone", func() error {
		_, err := s.kube.CoreV1().Namespaces().Get(t.Context(), doomed, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}

// Without --control-cluster-url nothing of all this runs.
func TestNothingIsReportedUnasked(t *testing.T) {
	t.Parallel()
	s := given(t)
	shop := s.workspace("shop", s.class()).ready()
	shop.patch(`{"metadata":{"annotations":{"formspec.dev/artifact-binary-hash":"a"}}}`)
	s.eventually("the pods have it", func() error { return shop.hasHash("a") })

	if page := s.operator.scrape(s); strings.Contains(page, "cluster_control") || strings.Contains(page, "formspec-reports") {
		t.Error("there are metrics about Cluster Control")
	}
	if lines := s.operator.grep("Cluster Control", 5) + s.operator.grep("metrics.k8s.io", 5) + s.operator.grep("formspec-reports", 5); lines != "" {
		t.Errorf("the log says:\n%s", lines)
	}
	for _, container := range shop.deployment().Spec.Template.Spec.Containers {
		for _, env := range container.Env {
			if env.Name == "CONTROL_CLUSTER_URL" {
				t.Errorf("pods have %s=%s", env.Name, env.Value)
			}
		}
	}
	forbidden := sets.New("nodes", "identity")
	err := s.audit.scan(0, -1, operatorUser, func(_ int64, r request) {
		if r.process() == mainOperator && (forbidden.Has(r.Object.Resource) || strings.Contains(r.RequestURI, "metrics.k8s.io") ||
			strings.Contains(r.RequestURI, "formspec-operator-identity") || strings.Contains(r.RequestURI, "formspec-operator-reports")) {
			t.Errorf("the operator asks: %s", r)
		}
	})
	s.must("read the audit log", err)
}
