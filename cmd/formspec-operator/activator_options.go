// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// activatorOptions are the flags of activator. A value that is valid comes from newActivatorOptions, addFlags and validate.
type activatorOptions struct {
	kubeconfig string

	bindAddress string
	serving     serving

	idleAfter            time.Duration
	wakeDeadline         time.Duration
	maxHeld              int
	maxHeldPerWorkspace  int
	leaseWritesPerSecond int
	drainDelay           time.Duration
	shutdownTimeout      time.Duration
}

func newActivatorOptions() *activatorOptions {
	return &activatorOptions{
		bindAddress:          ":8080",
		serving:              newServing(),
		idleAfter:            newOptions().idleAfter,
		wakeDeadline:         time.Minute,
		maxHeld:              5000,
		maxHeldPerWorkspace:  1000,
		leaseWritesPerSecond: 20,
		drainDelay:           10 * time.Second,
		shutdownTimeout:      3 * time.Minute,
	}
}

func (o *activatorOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "Path of a kubeconfig. Empty: the cluster this runs in, else $KUBECONFIG, else ~/.kube/config.")

	fs.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "Address that takes the workspaces' requests, HTTP/1.1 and unencrypted HTTP/2.")
	o.serving.addFlags(fs)

	fs.DurationVar(&o.idleAfter, "idle-after", o.idleAfter, "Time without traffic after which a workspace may sleep, as the operator has it.")
	fs.DurationVar(&o.wakeDeadline, "wake-deadline", o.wakeDeadline, "How long a request waits for its workspace to wake up. It is then answered 503 with the reason; the workspace goes on starting.")
	fs.IntVar(&o.maxHeld, "max-held", o.maxHeld, "Number of requests that may wait at the same time. More are answered 503.")
	fs.IntVar(&o.maxHeldPerWorkspace, "max-held-per-workspace", o.maxHeldPerWorkspace, "Number of requests that may wait for one workspace at the same time.")
	fs.IntVar(&o.leaseWritesPerSecond, "lease-writes-per-second", o.leaseWritesPerSecond, "Renewals of Leases per second. Wakes, and renewals without which a busy workspace would be put to sleep, do not wait for it.")
	fs.DurationVar(&o.drainDelay, "drain-delay", o.drainDelay, "How long requests are taken as before after a signal, until everybody has heard that this pod is not ready.")
	fs.DurationVar(&o.shutdownTimeout, "shutdown-timeout", o.shutdownTimeout, "How long started requests may take to finish after that.")
}

// validate returns every mistake at once, each with the flag to change.
func (o *activatorOptions) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	o.serving.validate(refuse)
	if o.idleAfter <= 0 {
		refuse("--idle-after: must be positive, is %s", o.idleAfter)
	}
	if o.wakeDeadline <= 0 {
		refuse("--wake-deadline: must be positive, is %s", o.wakeDeadline)
	}
	if o.maxHeld < 1 {
		refuse("--max-held: must be at least 1, is %d", o.maxHeld)
	}
	if o.maxHeldPerWorkspace < 1 {
		refuse("--max-held-per-workspace: must be at least 1, is %d", o.maxHeldPerWorkspace)
	}
	if o.leaseWritesPerSecond < 1 {
		refuse("--lease-writes-per-second: must be at least 1, is %d", o.leaseWritesPerSecond)
	}
	if o.drainDelay < 0 {
		refuse("--drain-delay: must not be negative, is %s", o.drainDelay)
	}
	if o.shutdownTimeout <= 0 {
		refuse("--shutdown-timeout: must be positive, is %s", o.shutdownTimeout)
	}
	return errors.Join(errs...)
}
