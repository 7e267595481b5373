// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// applicationName is what servers see as the name of the client.
const applicationName = "formspec-operator"

// DefaultTimeout is how long a probe may take, from the look-up of the host to the last answer.
const DefaultTimeout = 5 * time.Second

// Result is what a probe found.
type Result struct {
	// Reason is one of the v1alpha1.Reason constants.
	Reason string
	// Message is for people, and may be shown to anybody who may see the Datastore.
	Message string
	// Superuser is true if a postgres server says that the user is one. It does not make the endpoint invalid: whether it
	// may be shared is the controller's question (v1alpha1.ReasonSharedAdminCredentials).
	Superuser bool
	// SizeBytes is how much the database (postgres) or the server's memory (redis, valkey) holds; nil if it did not say.
	SizeBytes *int64
	// RetryAfter is how long the Pool will not try the host again. 0: a new probe can be asked for at any time.
	RetryAfter time.Duration
}

// Valid is true if the endpoint can be used.
func (r Result) Valid() bool {
	return r.Reason == v1alpha1.ReasonValidated || r.Reason == v1alpha1.ReasonNotProbed
}

// serverDown is true if another host of the same endpoint may give a better answer.
func (r Result) serverDown() bool {
	switch r.Reason {
	case v1alpha1.ReasonUnreachable, v1alpha1.ReasonServerNotReady, v1alpha1.ReasonTooManyConnections:
		return true
	}
	return false
}

// unreachable is the one answer about hosts that do not answer, or not in the protocol. It does not say which, or why:
// those who may create Datastores are not to map the operator's network with them.
func unreachable() Result {
	return Result{Reason: v1alpha1.ReasonUnreachable, Message: "no server answers there in the driver's protocol"}
}

// ProberOptions are how a Prober behaves. The zero value is for production, but for RefuseLoopback.
type ProberOptions struct {
	// Timeout of a whole probe. 0: DefaultTimeout.
	Timeout time.Duration
	// RefuseLoopback makes addresses of the operator's own machine unreachable. A pod's loopback is no other pod's.
	RefuseLoopback bool
}

// Prober tries endpoints. It has no state: one is enough, and any number of probes may run at a time.
type Prober struct {
	timeout time.Duration
	network network
}

// NewProber returns a Prober.
func NewProber(options ProberOptions) *Prober {
	if options.Timeout <= 0 {
		options.Timeout = DefaultTimeout
	}
	return &Prober{timeout: options.Timeout, network: network{refuseLoopback: options.RefuseLoopback}}
}

// Probe connects to the endpoint, logs in, asks the cheapest question and closes the connection. It returns within the
// timeout, and leaves nothing running.
func (p *Prober) Probe(ctx context.Context, endpoint Endpoint) Result {
	d := driverFor(endpoint.Driver())
	if d == nil {
		return Result{Reason: v1alpha1.ReasonInternalError, Message: "there is nothing to probe"}
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return d.probe(ctx, p.network, endpoint.get())
}
