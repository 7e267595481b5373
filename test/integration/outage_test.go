// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// The API server is gone for a while and comes back: the operator rides it out.
func apiServerOutage(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	outage := 20 * time.Second
	if long() {
		outage = 90 * time.Second
	}
	class := s.class()
	shop := s.workspace("shop", class).ready()
	pods := shop.podUIDs()
	s.operator.troubled = true // it logs errors meanwhile

	// when
	s.Cleanup(s.bringBack)
	s.takeAway()
	s.lasts(outage, "the operator runs on", func() error {
		if !s.operator.running() {
			return fmt.Errorf("it ended: %s\n%s", s.operator.cmd.ProcessState, s.operator.tail(20))
		}
		return nil
	})
	s.bringBack()

	// then
	late := s.workspace("late", class)
	shop.patch(`{"spec":{"owner":"somebody"}}`)
	s.within(20*time.Second, "the operator goes on", func() error { return late.hasChild("Deployment", true) })
	late.ready()
	shop.ready()
	if !s.operator.running() {
		t.Errorf("the operator ended: %s\n%s", s.operator.cmd.ProcessState, s.operator.tail(20))
	}
	if after := shop.podUIDs(); !after.Equal(pods) {
		t.Errorf("the pods were replaced: %v before, %v after", pods, after)
	}
	s.restart(syscall.SIGTERM) // the next one has no reason to log errors
}

// takeAway stops the API server, and Kubernetes' own controllers, which would find out only up to a minute later that it is back.
func (s *scenario) takeAway() {
	s.Helper()
	for _, args := range [][]string{
		{"stop", "kube-apiserver"}, {"stop", "--kill", "kube-controller-manager"}, {"stop", "--kill", "kube-scheduler"}, {"stop", "--kill", "kwok"},
	} {
		_, err := s.cluster.devcluster(s.Context(), args...)
		s.must("take the control plane away", err)
	}
}

// bringBack starts what does not run.
func (s *scenario) bringBack() {
	s.Helper()
	_, err := s.cluster.devcluster(context.WithoutCancel(s.Context()), "up")
	s.must("bring the control plane back", err)
}
