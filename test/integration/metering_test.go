// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/test/clustercontrol"
)

// Every slot is metered once and in full, whenever leaders die, and also if nobody lives through it. In each slot pods go, of which only
// those who saw it know later.
func meteringAcrossKills(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	s.alone()
	s.usage()
	c := s.control()
	c.givenIdentity()
	kills := 4
	if long() {
		kills = 20
	}
	class := s.class(func(class *v1alpha1.ClusterClass) { class.Spec.Scaling.MinReplicas = 2 })
	replicas := map[string]*process{}
	for _, name := range []string{"meter-one", "meter-two"} {
		replicas[name] = c.reporter(name)
	}
	truth := s.watchPods()
	var shops []*tenant
	for i := range 3 {
		shops = append(shops, s.workspace(fmt.Sprintf("shop-%d", i), class).ready())
	}
	from := time.Now().Truncate(slotLength).Add(slotLength)

	// when
	var until time.Time
	for kill := range kills {
		for _, shop := range shops {
			s.must("delete a pod", s.kube.CoreV1().Pods(s.namespace).Delete(t.Context(), shop.pods()[0].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		}
		sampled := time.Now().Add(slotLength * 6 / 10) // both replicas have by then, so what they saw is on the disk
		var leader string
		s.eventually("somebody leads", func() (err error) {
			leader, err = s.leader(replicas)
			return err
		})
		// At the end of a slot one of before is handed over, too.
		until = later(time.Now(), sampled).Truncate(slotLength).Add(slotLength)
		select {
		case <-time.After(time.Until(until) + rand.N(500*time.Millisecond)):
		case <-t.Context().Done():
		}
		replicas[leader].kill()
		for name, p := range replicas {
			if kill%2 == 1 {
				p.kill()
			}
			if !p.running() {
				replicas[name] = c.reporter(name) // which may win the next election, or not
			}
		}
	}
	s.eventually("somebody leads", func() error {
		_, err := s.leader(replicas)
		return err
	})

	// then
	c.hears("the slots until the last kill are metered", func(state clustercontrol.State) error { return metered(state, from, until) })
	s.must("meter what was used", truth.usedInAll(s, c.State(), from, until))
	s.must("keep the contract", c.kept())
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
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

// podLives is when pods ran, as somebody saw who was there all the time.
type podLives struct {
	mu    sync.Mutex
	lives map[types.UID]podLife
}

type podLife struct {
	workspace  string
	start, end time.Time // zero: not yet
}

// watchPods watches the pods of the scenario until its end.
func (s *scenario) watchPods() *podLives {
	s.Helper()
	truth := &podLives{lives: map[types.UID]podLife{}}
	factory := kubeinformers.NewSharedInformerFactoryWithOptions(s.kube, 0, kubeinformers.WithNamespace(s.namespace))
	registration, err := factory.Core().V1().Pods().TypedInformer().AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod) { truth.saw(pod, time.Time{}) },
		UpdateFunc: func(_, pod *corev1.Pod) { truth.saw(pod, time.Time{}) },
		DeleteFunc: func(pod cache.DeletedObject[*corev1.Pod]) {
			if end := time.Now(); pod.OptionalObj != nil {
				if deadline := pod.OptionalObj.DeletionTimestamp; deadline != nil && deadline.Time.Before(end) {
					end = deadline.Time // in whole seconds
				}
				truth.saw(pod.OptionalObj, end)
			}
		},
	}, cache.HandlerOptions{})
	s.must("watch pods", err)
	ctx, stop := context.WithCancel(s.Context())
	factory.StartWithContext(ctx)
	s.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	if !cache.WaitFor(ctx, "", registration.HasSyncedChecker()) {
		s.Fatal("the pods cannot be listed")
	}
	return truth
}

func (p *podLives) saw(pod *corev1.Pod, end time.Time) {
	if pod.Status.StartTime == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives[pod.UID] = podLife{pod.Labels[v1alpha1.LabelWorkspace], pod.Status.StartTime.Time, end}
}

// ran is for how long pods of a Workspace ran in a slot.
func (p *podLives) ran(workspace string, slot time.Time) (sum time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, life := range p.lives {
		start, end := life.start, slot.Add(slotLength)
		if start.Before(slot) {
			start = slot
		}
		if !life.end.IsZero() && life.end.Before(end) {
			end = life.end
		}
		if life.workspace == names.Label(workspace) {
			sum += max(0, end.Sub(start))
		}
	}
	return sum
}

// usedInAll compares each slot, and all together, with what pods used by the metrics API.
func (p *podLives) usedInAll(s *scenario, state clustercontrol.State, from, until time.Time) error {
	var errs []error
	for name, list := range slots(state, from, until) {
		var have, want float64
		for _, u := range list {
			ran := p.ran(name, u.Slot).Seconds()
			errs = append(errs, used(u, ran))
			if u.PodSeconds != nil {
				have, want = have+float64(*u.PodSeconds), want+ran
			}
		}
		s.Logf("%s: %d slots, %.0f pod seconds, want %.1f", name, len(list), have, want)
	}
	return errors.Join(errs...)
}
