// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers has one folder per kind below it, and here what they have in common: what a controller is, and how a set of
// them starts and stops.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Controller is one sync loop. Its informers have been started when it runs; it waits for its own handlers.
type Controller interface {
	// Name is unique in the process, and stable: it labels metrics and logs.
	Name() string
	// Run works with that many workers until ctx ends, and returns once every started sync has finished.
	// It returns an error when it could not start.
	Run(ctx context.Context, workers int) error
}

// CheckNames returns an error that names the controllers which have no name, or one that another has too.
func CheckNames(list []Controller) error {
	seen := sets.New[string]()
	var errs []error
	for _, c := range list {
		switch name := c.Name(); {
		case name == "":
			errs = append(errs, fmt.Errorf("controller %T has no name", c))
		case seen.Has(name):
			errs = append(errs, fmt.Errorf("two controllers are named %s", name))
		default:
			seen.Insert(name)
		}
	}
	return errors.Join(errs...)
}

// Run runs all controllers until ctx ends, and then waits for them for at most the drain time. A controller that returns earlier
// stops the others. The error names those that failed and those that have not returned in time; these are left running.
func Run(ctx context.Context, list []Controller, workers int, drain time.Duration) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type result struct {
		name string
		err  error
	}
	results := make(chan result, len(list))
	running := sets.New[string]()
	for _, c := range list {
		running.Insert(c.Name())
		go func() { results <- result{c.Name(), c.Run(ctx, workers)} }()
	}

	var errs []error
	for running.Len() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case r := <-results:
			running.Delete(r.name)
			if ctx.Err() == nil {
				errs = append(errs, fmt.Errorf("run controller %s: %w", r.name, endedEarly(r.err)))
				stop()
			}
		}
	}
	<-ctx.Done() // at once, unless there is no controller

	deadline := time.NewTimer(drain)
	defer deadline.Stop()
	for running.Len() > 0 {
		select {
		case r := <-results:
			running.Delete(r.name)
			if r.err != nil && !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, context.Cause(ctx)) {
				errs = append(errs, fmt.Errorf("stop controller %s: %w", r.name, r.err))
			}
		case <-deadline.C:
			names := sets.List(running)
			return errors.Join(append(errs, fmt.Errorf("wait %s for controllers to stop: still running: %s", drain, strings.Join(names, ", ")))...)
		}
	}
	return errors.Join(errs...)
}

func endedEarly(err error) error {
	if err == nil {
		return errors.New("ended without being told to")
	}
	return err
}
