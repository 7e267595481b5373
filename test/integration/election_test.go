// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// The lease of these tests is short, but not so short that a busy machine loses it.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
)

// One replica works and another takes over when that one is killed, told to stop, or stopped and resumed.
func leaderElection(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	s.endMain(syscall.SIGTERM)
	s.Cleanup(s.startMain)
	s.allowLeases()
	class := s.class()
	one := s.replica("one")
	s.leads(one)
	s.workspace("shop", class).ready()

	two := s.replica("two")
	t.Run("the leader is killed", func(*testing.T) {
		one.signal(syscall.SIGKILL)
		<-one.done
		start := s.now()
		s.workspace("killed", class).ready()
		s.onlyFrom(start, two)
	})

	three := s.replica("three")
	t.Run("the leader is told to stop", func(t *testing.T) {
		start := s.now()
		two.signal(syscall.SIGTERM)
		code, err := two.wait(patience)
		if err != nil || code != 0 {
			t.Errorf("it ended with code %d (%v), want 0\n%s", code, err, two.tail(20))
		}
		s.workspace("told", class).ready()
		leases := s.sent(start, about("leases"), wrote)
		released, acquired := last(leases, two), first(leases, three)
		if gap := acquired.Sub(released); gap < 0 || gap > leaseDuration/2 {
			t.Errorf("the lease was free for %s, want it to be taken at once:%s", gap, list(leases))
		}
		s.silentSince(acquired, start, two)
	})

	four := s.replica("four")
	t.Run("the leader is stopped and resumed", func(t *testing.T) {
		start := s.now()
		three.troubled = true
		s.burst(class)
		three.signal(syscall.SIGSTOP)
		t.Cleanup(func() { three.signal(syscall.SIGCONT) })
		for _, w := range s.burst(class) { // it has something to do when it resumes
			w.ready()
		}
		acquired := first(s.sent(start, about("leases"), wrote), four)

		three.signal(syscall.SIGCONT)
		code, err := three.wait(patience)
		if err != nil || code != 1 {
			t.Errorf("it ended with code %d (%v), want 1\n%s", code, err, three.tail(20))
		}
		s.silentSince(acquired, start, three)
		s.workspace("resumed", class).ready()
	})

	four.signal(syscall.SIGTERM)
	if code, err := four.wait(patience); err != nil || code != 0 {
		t.Errorf("the last leader ended with code %d (%v), want 0", code, err)
	}
}

// replica starts an operator that competes for a lease in the scenario's namespace, and works only there.
func (s *scenario) replica(name string, args ...string) *process {
	s.Helper()
	p, err := s.start(s.Context(), name, append([]string{
		"--namespace", s.namespace, "--leader-elect", "--leader-elect-namespace", s.namespace,
		"--leader-elect-lease-duration", leaseDuration.String(), "--leader-elect-renew-deadline", renewDeadline.String(),
		"--leader-elect-retry-period", retryPeriod.String(),
	}, args...)...)
	s.must("start a replica", err)
	s.Cleanup(p.stop)
	return p
}

// allowLeases gives the operator in the scenario's namespace what manifests/ give it in its own.
func (s *scenario) allowLeases() {
	s.Helper()
	_, err := s.cluster.kubectlWith(s.Context(), `{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"leases"},
		 "rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["create","get","update"]}]},
		{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"leases"},
		 "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"leases"},
		 "subjects":[{"kind":"ServiceAccount","namespace":"formspec-system","name":"formspec-operator"}]}]}`,
		"apply", "-n", s.namespace, "-f", "-")
	s.must("allow leases", err)
}

// leads waits until a replica holds the lease.
func (s *scenario) leads(p *process) {
	s.Helper()
	start := mark{}
	s.eventually(p.name+" leads", func() error {
		if first(s.sent(start, about("leases"), wrote), p).IsZero() {
			return fmt.Errorf("it has not written the lease:\n%s", p.tail(5))
		}
		return nil
	})
}

// burst gives the operator several things to do at once.
func (s *scenario) burst(class *v1alpha1.ClusterClass) []*tenant {
	s.Helper()
	s.bursts++
	var tenants []*tenant
	for i := range 5 {
		tenants = append(tenants, s.workspace(fmt.Sprintf("burst-%d-%d", s.bursts, i), class))
	}
	return tenants
}

func from(p *process) func(request) bool {
	return func(r request) bool { return r.process() == p.name }
}

func first(requests []request, p *process) time.Time {
	if i := slices.IndexFunc(requests, from(p)); i >= 0 {
		return requests[i].Received
	}
	return time.Time{}
}

func last(requests []request, p *process) time.Time {
	if all := filter(requests, from(p)); len(all) > 0 {
		return all[len(all)-1].Received
	}
	return time.Time{}
}

// onlyFrom checks that all writes since a mark are a replica's.
func (s *scenario) onlyFrom(start mark, p *process) {
	s.Helper()
	others := s.sent(start, request.write, func(r request) bool { return r.process() != p.name })
	if len(others) > 0 {
		s.Errorf("others than %s wrote:%s", p.name, list(others))
	}
}

// silentSince checks that a replica wrote nothing after another had taken the lease.
func (s *scenario) silentSince(acquired time.Time, start mark, p *process) {
	s.Helper()
	if acquired.IsZero() {
		s.Fatal("nobody took the lease")
	}
	late := s.sent(start, request.write, from(p), func(r request) bool { return !r.Received.Before(acquired) })
	if len(late) > 0 {
		s.Errorf("%s wrote after another had taken the lease at %s:%s", p.name, acquired.Format("15:04:05.000"), list(late))
	}
}
