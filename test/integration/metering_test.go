// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/test/clustercontrol"
)

// Every slot is metered once, whenever leaders die.
func TestMeteringAcrossKills(t *testing.T) {
	s := given(t)
	s.alone()
	s.usage()
	c := s.control()
	c.givenIdentity()
	kills := 3
	if long() {
		kills = 20
	}
	class := s.class(func(class *v1alpha1.ClusterClass) { class.Spec.Scaling.MinReplicas = 2 })
	replicas := map[string]*process{}
	for _, name := range []string{"meter-one", "meter-two"} {
		replicas[name] = c.reporter(name)
	}
	for i := range 3 {
		s.workspace(fmt.Sprintf("shop-%d", i), class).ready()
	}
	from := time.Now().Truncate(slotLength).Add(slotLength)

	// when
	var until time.Time
	for range kills {
		var leader string
		s.eventually("somebody leads", func() (err error) {
			leader, err = s.leader(replicas)
			return err
		})
		// Who started last has seen a whole slot by then: usage that only a killed process has sampled is lost.
		end := time.Now().Truncate(slotLength).Add(2 * slotLength)
		select {
		case <-time.After(time.Until(end) + rand.N(500*time.Millisecond)): // that of a slot, when one of before is handed over
		case <-t.Context().Done():
		}
		replicas[leader].kill()
		until = end
		replicas[leader] = c.reporter(leader) // which may win the next election, or not
	}
	s.eventually("somebody leads", func() error {
		_, err := s.leader(replicas)
		return err
	})

	// then
	c.hears("the slots until the last kill are metered", func(state clustercontrol.State) error { return metered(state, from, until) })
	s.must("meter what was used", usedInAll(c.State(), from, until))
	s.must("keep the contract", c.kept())
}

// leader is the replica that holds the lease now.
func (s *scenario) leader(replicas map[string]*process) (string, error) {
	for name, p := range replicas {
		if p.running() && p.metric(s, `leader_election_master_status{name="formspec-operator"}`) == "1" {
			return name, nil
		}
	}
	return "", fmt.Errorf("none of %d replicas leads", len(replicas))
}

// slots are those of each Workspace between two times, by name.
func slots(state clustercontrol.State, from, until time.Time) map[string][]clustercontrol.Usage {
	found := map[string][]clustercontrol.Usage{}
	for _, u := range state.Usage { // by slot
		if u.Workspace != "" && !u.Slot.Before(from) && u.Slot.Before(until) {
			found[u.Workspace] = append(found[u.Workspace], u)
		}
	}
	return found
}

// metered returns an error unless every Workspace has every slot.
func metered(state clustercontrol.State, from, until time.Time) error {
	found := slots(state, from, until)
	for _, name := range []string{"shop-0", "shop-1", "shop-2"} {
		want := from
		for _, u := range found[name] {
			if !u.Slot.Equal(want) {
				return fmt.Errorf("%s lacks the slot %s", name, want)
			}
			want = want.Add(slotLength)
		}
		if want.Before(until) {
			return fmt.Errorf("%s lacks the slots from %s on", name, want)
		}
	}
	return nil
}

// usedInAll compares each slot with what the metrics API says.
func usedInAll(state clustercontrol.State, from, until time.Time) error {
	for _, list := range slots(state, from, until) {
		for _, u := range list {
			if err := used(u, 2); err != nil {
				return err
			}
		}
	}
	return nil
}
