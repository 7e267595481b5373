// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// contender starts an operator that works in all namespaces while it holds the lease.
func (env *environment) contender(t *testing.T, name string) *process {
	t.Helper()
	p, err := env.start(t.Context(), name, "--leader-elect", "--leader-elect-lease-duration", leaseDuration.String(),
		"--leader-elect-renew-deadline", renewDeadline.String(), "--leader-elect-retry-period", retryPeriod.String())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// limitOutlivesTheLeader kills the leader while a crowd asks for the slots of a class, and again once they are taken. FR-48.
func limitOutlivesTheLeader(t *testing.T, env *environment) {
	t.Helper()
	first := givenIn(t, env)
	one := env.contender(t, "one")
	first.workspace("warm", first.class()).ready() // it leads
	two := env.contender(t, "two")
	start := first.now()
	class := first.class(limit(3))
	c := &crowd{
		scenario: first, class: class, tenants: map[string]*tenant{}, census: first.count(class),
		namespaces: []*scenario{givenIn(t, env), givenIn(t, env), givenIn(t, env), givenIn(t, env)},
	}

	// when
	killed := make(chan int)
	go func() {
		_ = wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, func(context.Context) (bool, error) { return c.census.now() > 0, nil })
		one.signal(syscall.SIGKILL)
		<-one.done
		killed <- c.census.now()
	}()
	c.rush(10)
	t.Logf("%d Deployments were there when the leader was killed", <-killed)
	early := c.census.names()

	// then
	admitted, waiting := c.settled(3)
	for _, name := range early {
		if !slices.Contains(keys(admitted), name) {
			t.Errorf("%s had a Deployment when the leader was killed and is not admitted now: %q are", name, keys(admitted))
		}
	}
	// What the leader was about to do when it was killed may be begun. Nothing runs.
	if err := c.childless(waiting, kindOf("Deployment"), kindOf("HorizontalPodAutoscaler"), kindOf("PodDisruptionBudget")); err != nil {
		t.Error(err)
	}

	// when the next leader is killed at rest
	before := deployments(admitted)
	three := env.contender(t, "three")
	mark := first.now()
	two.signal(syscall.SIGKILL)
	<-two.done
	waiting[20].patch(`{"spec":{"owner":"another"}}`) // somebody looks, and that is the new leader
	first.eventually("the new leader works", func() error {
		if ws := waiting[20].get(); ws.Status.ObservedGeneration != ws.Generation {
			return fmt.Errorf("generation %d is not looked at", ws.Generation)
		}
		return nil
	})

	// then
	again, _ := c.settled(3)
	if !slices.Equal(keys(again), keys(admitted)) || !maps.Equal(deployments(again), before) {
		t.Errorf("%q run after the restart, want the same as before: %q", keys(again), keys(admitted))
	}
	all, err := env.audit.between(t.Context(), mark, first.now())
	first.must("read the audit log", err)
	if writes := filter(all, wrote, about("deployments")); len(writes) > 0 {
		t.Errorf("the new leader wrote Deployments that need nothing:%s", list(writes))
	}

	// when one goes, the new leader knows who is next
	next := waiting[0]
	admitted[0].delete(metav1.DeletePropagationBackground)
	next.ready()
	c.settled(3)
	if err := c.census.peaked(3); err != nil {
		t.Error(err)
	}
	if err := c.auditNever(start, 3); err != nil {
		t.Error(err)
	}
	three.stop()
}

// looseSchema stores what the types cannot hold, as an earlier or another schema may have let it in.
func looseSchema(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	operator := env.contender(t, "four")
	class := s.class(full)
	good := s.workspace("good", class).ready()
	for _, kind := range []string{"workspaces", "clusterclasses"} {
		s.kubectl("patch", "crd", kind+".formspec.dev", "--type=json", "-p",
			`[{"op":"replace","path":"/spec/versions/0/schema","value":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]`)
	}
	s.eventually("the schema lets everything in", func() error {
		_, err := env.cluster.kubectlWith(t.Context(), document("Workspace", "probe", `"any"`), "-n", s.namespace, "create", "--dry-run=server", "--validate=false", "-f", "-")
		return err
	})

	classes := map[string][2]string{ // what is wrong, and right
		"text-for-a-number": {`{"maxWorkspaces":"many"}`, `{"maxWorkspaces":9}`},
		"no-int32":          {`{"maxWorkspaces":3000000000}`, `{"maxWorkspaces":null}`},
		"negative":          {`{"maxWorkspaces":-1}`, `{"maxWorkspaces":1}`},
		"no-list":           {`{"features":"auto-scaling"}`, `{"features":["auto-scaling"]}`},
		"no-node-type":      {`{"nodeType":"quantum"}`, `{"nodeType":"dedicated"}`},
		"no-object":         {`{"scaling":[2]}`, `{"scaling":{"minReplicas":2}}`},
		"no-image":          {`{"resourceImage":"formahub/formspec-resource:latest"}`, `{"resourceImage":"formahub/formspec-resource:1.4.2"}`},
	}
	workspaces := map[string][2]string{
		"number-for-text": {`{"resources":{"cpu":2}}`, `{"resources":{"cpu":"2"}}`},
		"no-quantity":     {`{"resources":{"memory":"4 gigs"}}`, `{"resources":{"memory":"4Gi"}}`},
		"negative":        {`{"resources":{"cpu":"-1"}}`, `{"resources":{"cpu":"1"}}`},
		"no-label":        {`{"region":"nowhere at all!"}`, `{"region":"jakarta"}`},
		"no-list":         {`{"datastores":"pg"}`, `{"datastores":[]}`},
		"no-object":       {`{"resources":"all of them"}`, `{"resources":{}}`},
		"list-for-text":   {`{"owner":["a","b"]}`, `{"owner":"a"}`},
	}
	var stored []*tenant

	// when
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		s.store("ClusterClass", s.namespace+"-"+name, classes[name][0])
		s.store("Workspace", "of-"+name, fmt.Sprintf(`{"clusterClass":%q}`, s.namespace+"-"+name))
		stored = append(stored, &tenant{scenario: s, name: "of-" + name})
	}
	for _, name := range slices.Sorted(maps.Keys(workspaces)) {
		s.store("Workspace", name, fmt.Sprintf(`{"clusterClass":%q,%s`, class.Name, workspaces[name][0][1:]))
		stored = append(stored, &tenant{scenario: s, name: name})
	}
	s.store("Workspace", "classless", `{}`)

	// then
	invalid := func() {
		t.Helper()
		for _, w := range stored {
			reason := v1alpha1.ReasonInvalidSpec
			if w.name == "of-no-image" {
				reason = v1alpha1.ReasonUnpinnedImage
			}
			s.eventually(w.name+" is stalled", func() error {
				if err := w.rawCondition(v1alpha1.ConditionStalled, "True", reason); err != nil {
					return err
				}
				return w.rawCondition(v1alpha1.ConditionReady, "False", reason)
			})
		}
		for name := range classes {
			s.eventually("class "+name+" is stalled", func() error {
				return s.rawCondition("clusterclass", s.namespace+"-"+name, v1alpha1.ConditionStalled, "True", v1alpha1.ReasonInvalidSpec)
			})
		}
		(&tenant{scenario: s, name: "classless"}).failing(v1alpha1.ReasonClusterClassNotFound)
	}
	invalid()
	s.patchClass(class, `{"spec":{"scaling":{"minReplicas":3}}}`)
	good.arrived(3)
	s.workspace("another", class).ready()

	// when the operator is another
	operator.signal(syscall.SIGKILL)
	<-operator.done
	env.contender(t, "five")

	// then
	s.workspace("third", class).ready()
	invalid()

	// when all is corrected
	for name, spec := range classes {
		s.kubectl("patch", "clusterclass", s.namespace+"-"+name, "--type=merge", "-p", `{"spec":`+spec[1]+`}`)
		s.Cleanup(func() { s.deleteClass(s.namespace + "-" + name) })
	}
	for name, spec := range workspaces {
		s.kubectl("patch", "workspace", name, "--type=merge", "-p", `{"spec":`+spec[1]+`}`)
	}

	// then
	for _, w := range stored {
		w.ready()
	}
	for name := range classes {
		s.eventually("class "+name+" is accepted", func() error {
			return s.classSays(s.namespace+"-"+name, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
		})
	}

	// when something that cannot be read is deleted, it goes
	s.kubectl("patch", "workspace", "no-object", "--type=merge", "-p", `{"spec":{"resources":7}}`)
	w := &tenant{scenario: s, name: "no-object"}
	s.eventually("it cannot be read", func() error { return w.rawCondition(v1alpha1.ConditionStalled, "True", v1alpha1.ReasonInvalidSpec) })
	s.kubectl("delete", "workspace", "no-object", "--timeout=60s")
	w.childrenGo()
}

// document is an object with a spec that may be anything.
func document(kind, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"formspec.dev/v1alpha1","kind":%q,"metadata":{"name":%q},"spec":%s}`, kind, name, spec)
}

func (s *scenario) store(kind, name, spec string) {
	s.Helper()
	_, err := s.cluster.kubectlWith(s.Context(), document(kind, name, spec), "-n", s.namespace, "create", "--validate=false", "-f", "-")
	s.must("store the "+kind, err)
}

// rawCondition reads a condition without knowing the types.
func (s *scenario) rawCondition(kind, name, conditionType, status, reason string) error {
	s.Helper()
	out := s.kubectl("get", kind, name, "-o", fmt.Sprintf(`jsonpath={.status.conditions[?(@.type==%q)]['status','reason']}`, conditionType))
	if want := status + " " + reason; out != want {
		return fmt.Errorf("the condition %s of %s %s is %q, want %q", conditionType, kind, name, out, want)
	}
	return nil
}

func (w *tenant) rawCondition(conditionType, status, reason string) error {
	w.Helper()
	return w.scenario.rawCondition("workspace", w.name, conditionType, status, reason)
}
