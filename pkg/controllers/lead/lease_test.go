// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lead_test

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseServer stores one lease as an API server does: a write that builds on an old version is a conflict.
type leaseServer struct {
	mu      sync.Mutex
	version int // 0: there is no lease
	record  resourcelock.LeaderElectionRecord
	writes  []leaseWrite
}

type leaseWrite struct {
	at     time.Time
	holder string // empty: a release
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (s *leaseServer) write(version int, record resourcelock.LeaderElectionRecord) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != s.version {
		return 0, apierrors.NewConflict(leases, "lease", nil)
	}
	s.version++
	s.record = record
	s.writes = append(s.writes, leaseWrite{time.Now(), record.HolderIdentity})
	return s.version, nil
}

// edit gives the lease to holder, as someone with kubectl could.
func (s *leaseServer) edit(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.record.HolderIdentity = holder
}

func (s *leaseServer) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.HolderIdentity
}

// writesOf returns when identity wrote the lease.
func (s *leaseServer) writesOf(identity string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var times []time.Time
	for _, w := range s.writes {
		if w.holder == identity {
			times = append(times, w.at)
		}
	}
	return times
}

// leaseClient is one replica's way to the lease.
type leaseClient struct {
	server   *leaseServer
	identity string
	version  int

	mu sync.Mutex
	// request and reply are what happens on the way to the server and back.
	request, reply func(context.Context) error
}

func (s *leaseServer) client(identity string) *leaseClient {
	return &leaseClient{server: s, identity: identity, request: arrives, reply: arrives}
}

func (c *leaseClient) network(request, reply func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.request, c.reply = request, reply
}

func (c *leaseClient) way() (request, reply func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.request, c.reply
}

func arrives(context.Context) error { return nil }

// isLost waits as long as its caller allows.
func isLost(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// takes delays by d.
func takes(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

// hangs until the channel is closed, whatever its caller wants.
func hangs(until <-chan struct{}) func(context.Context) error {
	return func(context.Context) error {
		<-until
		return context.DeadlineExceeded
	}
}

func (c *leaseClient) exchange(ctx context.Context, serve func() error) error {
	request, reply := c.way()
	if err := request(ctx); err != nil {
		return err
	}
	if err := serve(); err != nil {
		return err
	}
	return reply(ctx)
}

func (c *leaseClient) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var record resourcelock.LeaderElectionRecord
	err := c.exchange(ctx, func() error {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		if c.server.version == 0 {
			return apierrors.NewNotFound(leases, "lease")
		}
		c.version, record = c.server.version, c.server.record
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (c *leaseClient) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	c.version = 0
	return c.Update(ctx, record)
}

func (c *leaseClient) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	version := 0
	err := c.exchange(ctx, func() (err error) {
		version, err = c.server.write(c.version, record)
		return err
	})
	if err == nil {
		c.version = version
	}
	return err
}

func (c *leaseClient) RecordEvent(string) {}
func (c *leaseClient) Identity() string   { return c.identity }
func (c *leaseClient) Describe() string   { return "ns/lease" }
