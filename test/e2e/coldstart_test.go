// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// coldStart is one request that woke its Workspace, and how it ended.
type coldStart struct {
	pod   podStory
	took  time.Duration // from request to answer
	after time.Duration // from the moment in which a watch saw the pod Ready to the answer
}

// wakes sends one request to a Workspace that sleeps. It has to be answered by a new pod, with the header that says how long it was held.
func (l *podLog) wakes() coldStart {
	l.Helper()
	var before []string
	for _, p := range l.stories() {
		before = append(before, p.name)
	}
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	started := time.Now()
	answer, header, err := get(ctx, l.client(), l.url("/"))
	ended := time.Now()
	l.must("wake Workspace "+l.name, err)
	pod := l.nextReady(before...)
	if answer.Pod != pod.name {
		l.Errorf("%s answered, and %s is the new pod", answer.Pod, pod.name)
	}
	took := ended.Sub(started)
	if held, err := strconv.Atoi(header.Get(coldStartHeader)); err != nil || held <= 0 || time.Duration(held)*time.Millisecond > took {
		l.Errorf("%s is %q, and the request took %s", coldStartHeader, header.Get(coldStartHeader), took)
	}
	return coldStart{pod: pod, took: took, after: ended.Sub(pod.ready)}
}

// refusedError is an answer other than 200.
type refusedError struct {
	code   int
	header http.Header
	body   string
}

func (e *refusedError) Error() string { return fmt.Sprintf("%d: %s", e.code, e.body) }

// get returns what the stand-in says of a request, and the answer's header.
func get(ctx context.Context, client *http.Client, url string) (seen, http.Header, error) {
	var answer seen
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return answer, nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return answer, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, nil, err
	}
	if response.StatusCode != http.StatusOK {
		return answer, nil, &refusedError{response.StatusCode, response.Header, string(body)}
	}
	return answer, response.Header, json.Unmarshal(body, &answer)
}

// An economy Workspace sleeps by itself after its window. One request wakes it and is answered by its pod.
func TestScaleToZero(t *testing.T) {
	t.Parallel()
	s := given(t)
	shop := s.workspace("shop", s.class(economy(shortestWindow))).serving().watched()
	pods := shop.watchPods()
	old := pods.nextReady().name

	// when nobody asks
	shop.asleep()

	// then
	before := shop.deployment()
	woken := pods.wakes()
	shop.ready()
	pods.were(old, woken.pod.name)
	if after := shop.deployment(); after.Generation != before.Generation+1 {
		t.Errorf("a wake was %d writes of the Deployment's spec", after.Generation-before.Generation)
	}
	_, header, err := get(t.Context(), shop.client(), shop.url("/"))
	s.must("ask again", err)
	if have := header.Get(coldStartHeader); have != "" {
		t.Errorf("the answer of a Workspace that is awake has %s: %s", coldStartHeader, have)
	}
}

// Each cold start is one request, which is answered as soon as the pod is Ready. The figures are for docs/performance.md.
func TestColdStarts(t *testing.T) {
	if !long() {
		t.Parallel() // figures need a machine that does nothing else
	}
	s := given(t)
	class := s.class(economy(time.Hour), of(s.image("START_DELAY=0.5s")))
	n, rounds := either(10, 5), either(5, 1)
	var all []*tenant
	var logs []*podLog
	for i := range n {
		all = append(all, s.workspace("shop-"+strconv.Itoa(i), class))
	}
	for _, w := range all {
		w.serving().watched()
		logs = append(logs, w.watchPods())
		logs[len(logs)-1].nextReady()
	}
	var took, after []time.Duration
	for range rounds {
		s.toSleep(all...)
		for _, pods := range logs {
			woken := pods.wakes()
			took, after = append(took, woken.took), append(after, woken.after)
		}
	}
	for _, pods := range logs {
		for _, p := range pods.stories() {
			if p.restarts > 0 {
				t.Errorf("pod %s has restarted %d times", p.name, p.restarts)
			}
		}
	}
	t.Logf("%d cold starts of a pod that starts in 0.5s: request to answer p50 %s, p95 %s, p100 %s; Ready to answer p50 %s, p95 %s, p100 %s", len(took),
		percentile(took, 50), percentile(took, 95), percentile(took, 100), percentile(after, 50), percentile(after, 95), percentile(after, 100))
	if have := percentile(after, 95); long() && have > 250*time.Millisecond {
		t.Errorf("at the 95th percentile the answer came %s after the pod was Ready", have)
	}
}

// A pod that needs longer than a request is held is waited for and never restarted: the client tries again when it is told to.
func TestColdStartOfASlowPod(t *testing.T) {
	t.Parallel()
	s := given(t)
	delay := either(60*time.Second, 8*time.Second)
	shop := s.workspace("shop", s.class(economy(time.Hour), of(s.image("START_DELAY="+delay.String())))).serving().watched()
	pods := shop.watchPods()
	old := pods.nextReady().name
	s.toSleep(shop)

	// when
	started, tries := time.Now(), 0
	var answer seen
	s.eventually("the Workspace answers", func() error {
		var err error
		tries++
		answer, _, err = get(t.Context(), shop.client(), shop.url("/"))
		return s.obey(err)
	})

	// then
	t.Logf("a pod that starts in %s answered after %s, at try %d", delay, time.Since(started), tries)
	if answer.Pod == old {
		t.Error("the old pod answered")
	}
	pods.were(old, answer.Pod)
	shop.ready()
}

// obey waits as long as a 503 says, and returns the error. Any other one ends the test.
func (s *scenario) obey(err error) error {
	s.Helper()
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		s.must("get an answer", err)
		return nil
	}
	seconds, notNumber := strconv.Atoi(refused.header.Get("Retry-After"))
	if refused.code != http.StatusServiceUnavailable || notNumber != nil {
		s.Fatalf("instead of 503 with Retry-After: %v, %v", refused, refused.header)
	}
	s.pass(time.Duration(seconds) * time.Second)
	return refused
}
