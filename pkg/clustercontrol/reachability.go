// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"fmt"
	"sync"

	"k8s.io/klog/v2"
)

// failuresToTell is how many requests in a row must fail at an endpoint before anybody is told: one lost request is nobody's business.
const failuresToTell = 2

// reachability is whether Cluster Control does its work, over all endpoints: it does not while one of them fails. Each change is told
// once, by a log line, the metric and a callback.
type reachability struct {
	logger  klog.Logger
	metrics *Metrics
	changed func(reachable bool, reason string)

	mu       sync.Mutex
	failures map[Endpoint]int
	failing  map[Endpoint]bool
	wake     map[Endpoint]func()
}

func newReachability(logger klog.Logger, m *Metrics, changed func(bool, string)) *reachability {
	m.reachable(true) // until shown otherwise
	return &reachability{
		logger: logger, metrics: m, changed: changed,
		failures: map[Endpoint]int{}, failing: map[Endpoint]bool{}, wake: map[Endpoint]func(){},
	}
}

// onRecovery registers what is called, with the lock held, when another endpoint has answered after it had failed.
func (r *reachability) onRecovery(endpoint Endpoint, wake func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake[endpoint] = wake
}

// observe takes in what became of one request.
func (r *reachability) observe(endpoint Endpoint, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !a.outcome.healthy() {
		r.failures[endpoint]++
		if r.failures[endpoint] == failuresToTell {
			first := len(r.failing) == 0
			r.failing[endpoint] = true
			if first {
				r.tell(false, fmt.Sprintf("%s: %s", endpoint, a.reason()))
			}
		}
		return
	}
	r.failures[endpoint] = 0
	if !r.failing[endpoint] {
		return
	}
	delete(r.failing, endpoint)
	if len(r.failing) == 0 {
		r.tell(true, "every endpoint answers")
	}
	for other, wake := range r.wake {
		if other != endpoint {
			wake()
		}
	}
}

func (r *reachability) tell(reachable bool, reason string) {
	if reachable {
		r.logger.Info("Cluster Control is reachable again, what waits is being sent")
	} else {
		r.logger.Info("Cluster Control is not reachable; reports wait, workspaces are not affected", "reason", reason)
	}
	r.metrics.reachable(reachable)
	if r.changed != nil {
		r.changed(reachable, reason)
	}
}
