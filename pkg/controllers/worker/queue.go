// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// A failing key is retried after 50 ms, then after twice as long each time, up to 5 min, plus up to a tenth.
const (
	baseDelay = 50 * time.Millisecond
	maxDelay  = 5 * time.Minute
	jitter    = 0.1
)

// Queue holds the keys of one controller.
type Queue = workqueue.TypedRateLimitingInterface[cache.ObjectName]

// NewQueue returns the queue of the controller of that name, which its metrics carry.
func NewQueue(name string, clk clock.WithTicker) Queue {
	limiter := workqueue.NewTypedMaxOfRateLimiter(
		jittered{workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](baseDelay, maxDelay)},
		&workqueue.TypedBucketRateLimiter[cache.ObjectName]{Limiter: rate.NewLimiter(500, 5000)})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: name, Clock: clk})
}

// jittered keeps keys that failed together from coming back together.
type jittered struct {
	workqueue.TypedRateLimiter[cache.ObjectName]
}

// When returns how long the key has to wait.
func (j jittered) When(key cache.ObjectName) time.Duration {
	return wait.Jitter(j.TypedRateLimiter.When(key), jitter)
}
