package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// upRequest is one call of "up".
type upRequest struct {
	options options
	given   func(flag string) bool // which of the options are not just defaults
	dieWith int                    // a process id, or 0
	timeout time.Duration
}

// wanted are the options that the instance shall have.
func (c *instance) wanted(req upRequest) options {
	if !c.exists() {
		return req.options
	}
	return req.options.over(c.Options, req.given)
}

// up starts whatever of the instance does not run and waits until all of it is
// usable. Calling it again is cheap and changes nothing.
func (c *instance) up(ctx context.Context, req upRequest, log *progress) error {
	names := c.wanted(req).Components
	for _, name := range names {
		k, err := findComponent(name)
		if err != nil {
			return err
		}
		if k.node && c.Options.RealNode == nil {
			return fmt.Errorf("%s is part of a real node; add one with: devcluster node --name %s", name, c.name)
		}
	}
	// Before the lock: a first build takes minutes, and "status" is of use then.
	if err := buildPrograms(ctx, c.bin, append(slices.Clone(names), "kubectl"), log); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, req.timeout)
	defer cancel()
	unlock, err := c.lock(ctx, log)
	if err != nil {
		return err
	}
	defer unlock()
	total := log.timer()

	running := slices.ContainsFunc(components, func(k component) bool { return c.pid(k.name) != 0 })
	next := c.wanted(req)
	if running && c.Options.needsRestart(next) {
		return fmt.Errorf("instance %s is running with other options; they take effect after: devcluster down --name %s", c.name, c.name)
	}
	c.Options = next
	if err := c.assignPorts(ctx, running); err != nil {
		return err
	}
	if err := c.save(); err != nil {
		return err
	}
	// First of all, so that the parent's death is noticed during start-up too.
	if req.dieWith != 0 {
		if err := c.startReaper(ctx, req.dieWith); err != nil {
			return err
		}
	}
	if err := c.prepare(); err != nil {
		return err
	}
	for _, wave := range waves(c.selected()) {
		if err := c.startWave(ctx, wave, log); err != nil {
			return err
		}
	}
	if err := c.upNodes(ctx, log); err != nil {
		return err
	}
	total("instance %s is up", c.name)
	return nil
}

// startWave starts components at the same time and waits for all of them.
func (c *instance) startWave(ctx context.Context, wave []component, log *progress) error {
	done := log.timer()
	var started []component
	for _, k := range wave {
		already, err := c.start(ctx, k)
		if err != nil {
			return fmt.Errorf("start %s: %w", k.name, err)
		}
		if already {
			log.line("%s is running", k.name)
		} else {
			started = append(started, k)
		}
	}
	for _, k := range started {
		if err := c.waitReady(ctx, k); err != nil {
			return err
		}
		done("%s is ready", k.name)
	}
	return nil
}

// upNodes creates the simulated nodes and waits until every node is Ready.
func (c *instance) upNodes(ctx context.Context, log *progress) error {
	if !slices.Contains(c.Options.Components, "kwok") || c.Options.Nodes+c.Options.NodesUnlabelled == 0 {
		return nil
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	done := log.timer()
	labelled, unlabelled := defaultNodeSpec(), defaultNodeSpec()
	labelled.count = c.Options.Nodes
	unlabelled.count, unlabelled.unlabelled = c.Options.NodesUnlabelled, true
	for _, spec := range []nodeSpec{labelled, unlabelled} {
		if err := api.ensureNodes(ctx, spec); err != nil {
			return err
		}
	}
	n, err := api.waitNodesReady(ctx)
	if err != nil {
		return err
	}
	done("%d nodes are Ready", n)
	return nil
}

// startComponent is "devcluster start".
func (c *instance) startComponent(ctx context.Context, k component, log *progress) error {
	if !c.exists() {
		return fmt.Errorf("there is no instance %s; start one with: devcluster up --name %s", c.name, c.name)
	}
	unlock, err := c.lock(ctx, log)
	if err != nil {
		return err
	}
	defer unlock()
	if !slices.Contains(c.Options.Components, k.name) {
		return fmt.Errorf("%s is not a component of instance %s, which has %s", k.name, c.name, strings.Join(c.Options.Components, ", "))
	}
	return c.startWave(ctx, []component{k}, log)
}

// stopComponent is "devcluster stop".
func (c *instance) stopComponent(ctx context.Context, k component, kill bool, log *progress) error {
	if !c.exists() {
		return fmt.Errorf("there is no instance %s", c.name)
	}
	unlock, err := c.lock(ctx, log)
	if err != nil {
		return err
	}
	defer unlock()
	done := log.timer()
	if err := c.stopComponents(ctx, kill, k.name); err != nil {
		return err
	}
	done("%s is stopped", k.name)
	return nil
}
