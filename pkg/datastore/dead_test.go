// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/test/servers"
)

// FR-24, with real sockets: servers that accept and never speak, servers that drop packets, and a good one.
func TestDeadServersDoNotSlowTheGoodOne(t *testing.T) {
	server := servers.Postgres(t, servers.PostgresOptions{})
	var dead []datastore.Endpoint
	for i := range 50 {
		address := listen(t, "")
		if i%5 == 0 {
			address = full(t)
		}
		dead = append(dead, parse(t, pg, "postgres://u:p@"+address, nil))
	}
	good := parse(t, pg, fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres", server.Password, server.Port), nil)
	noMoreGoroutines(t)

	p := datastore.NewPool(datastore.NewProber(datastore.ProberOptions{Timeout: 3 * time.Second}).Probe, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { p.Run(ctx) })
	defer run.Wait()
	defer cancel()

	// The best of several, since the machine may be busy with other things.
	best := func() time.Duration {
		least := time.Hour
		for range 5 {
			start, done := time.Now(), make(chan datastore.Result)
			p.Submit(cache.NewObjectName("tenant", "good"), good, func(r datastore.Result) { done <- r })
			expect(t, <-done, valid)
			least = min(least, time.Since(start))
		}
		return least
	}
	alone := best()
	var answers sync.WaitGroup
	for i, e := range dead {
		answers.Add(1)
		p.Submit(cache.NewObjectName("tenant", fmt.Sprintf("dead-%d", i)), e, func(r datastore.Result) {
			expect(t, r, v1alpha1.ReasonUnreachable)
			answers.Done()
		})
	}
	beside := best()
	t.Logf("the good one takes %s alone and %s beside 50 dead ones", alone, beside)
	if beside > 2*alone+50*time.Millisecond {
		t.Errorf("the good one takes %s alone and %s beside 50 dead ones", alone, beside)
	}
	answers.Wait()
}
