// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// podLog is what a watch has shown of a Workspace's pods since it began.
type podLog struct {
	*tenant
	mu   sync.Mutex
	pods []*podStory
	err  error // the watch ended
}

// podStory is one pod.
type podStory struct {
	name    string
	created time.Time
	// ready is when the watch first showed the pod Ready, by this machine's clock. Zero: not yet.
	ready    time.Time
	restarts int32
}

// watchPods begins with the pods that are there.
func (w *tenant) watchPods() *podLog {
	w.Helper()
	l := &podLog{tenant: w}
	events, err := w.kube.CoreV1().Pods(w.namespace).Watch(w.Context(), metav1.ListOptions{LabelSelector: w.selector()})
	w.must("watch the pods", err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range events.ResultChan() {
			l.record(event)
		}
	}()
	w.Cleanup(func() {
		events.Stop()
		<-ended
	})
	return l
}

func (l *podLog) record(event watch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		l.err = fmt.Errorf("the watch of the pods says %v", event.Object)
		return
	}
	i := slices.IndexFunc(l.pods, func(p *podStory) bool { return p.name == pod.Name })
	if i < 0 {
		i = len(l.pods)
		l.pods = append(l.pods, &podStory{name: pod.Name, created: pod.CreationTimestamp.Time})
	}
	story := l.pods[i]
	if story.ready.IsZero() && podReady(pod) {
		story.ready = time.Now()
	}
	for _, c := range pod.Status.ContainerStatuses {
		story.restarts = max(story.restarts, c.RestartCount)
	}
}

// stories returns all pods so far, the oldest first.
func (l *podLog) stories() []podStory {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.must("watch the pods", l.err)
	all := make([]podStory, len(l.pods))
	for i, p := range l.pods {
		all[i] = *p
	}
	return all
}

// nextReady waits until a pod other than those named is Ready.
func (l *podLog) nextReady(others ...string) podStory {
	l.Helper()
	var found podStory
	l.eventually("a new pod of "+l.name+" is Ready", func() error {
		all := l.stories()
		i := slices.IndexFunc(all, func(p podStory) bool { return !p.ready.IsZero() && !slices.Contains(others, p.name) })
		if i < 0 {
			return fmt.Errorf("there are %+v", all)
		}
		found = all[i]
		return nil
	})
	return found
}

// were fails unless exactly these pods have been there, and none has restarted.
func (l *podLog) were(names ...string) {
	l.Helper()
	var have []string
	for _, p := range l.stories() {
		have = append(have, p.name)
		if p.restarts > 0 {
			l.Errorf("pod %s has restarted %d times", p.name, p.restarts)
		}
	}
	slices.Sort(have)
	slices.Sort(names)
	if !slices.Equal(have, names) {
		l.Errorf("there were the pods %v, want %v", have, names)
	}
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
