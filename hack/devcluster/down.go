package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// down ends all processes of the instance, in the reverse of their start order,
// and with wipe deletes its files.
func (c *instance) down(ctx context.Context, wipe bool, log *progress) error {
	if _, err := os.Stat(c.data); os.IsNotExist(err) {
		log.line("there is no instance %s", c.name)
		return nil
	}
	unlock, err := c.lock(ctx, log)
	if err != nil {
		return err
	}
	defer unlock()
	total := log.timer()

	// The reaper first, lest it comes down upon the same processes.
	if c.pid(reaper) != os.Getpid() {
		if err := c.stopComponents(ctx, false, reaper); err != nil {
			return err
		}
	}
	if wipe {
		c.drainNode(ctx)
	}
	groups := waves(components)
	for _, wave := range slices.Backward(groups) {
		var names []string
		for _, k := range wave {
			names = append(names, k.name)
			if k.name == "containerd" {
				c.removeContainers(ctx)
			}
		}
		if err := c.stopComponents(ctx, false, names...); err != nil {
			return err
		}
	}
	if err := c.endAll(ctx, false, c.strays()); err != nil {
		return err
	}
	if !wipe {
		total("instance %s is down", c.name)
		return nil
	}
	if err := c.wipe(ctx); err != nil {
		return err
	}
	total("instance %s is down and its files are gone", c.name)
	return nil
}

// wipe deletes the data directory, and also the one above it when that was our
// choice and this was its last instance.
func (c *instance) wipe(ctx context.Context) error {
	if !c.exists() {
		// Nothing but an empty directory made for the lock may be deleted then.
		return os.Remove(c.data)
	}
	if err := c.cleanNode(ctx); err != nil {
		return err
	}
	// The state last: if something cannot be deleted, another try must still know
	// that this directory is an instance's.
	entries, err := os.ReadDir(c.data)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == stateFile {
			continue
		}
		if err := os.RemoveAll(c.path(e.Name())); err != nil {
			return fmt.Errorf("delete the data of instance %s: %w", c.name, err)
		}
	}
	if err := os.RemoveAll(c.data); err != nil {
		return err
	}
	if os.Getenv("DEVCLUSTER_DATA") == "" {
		_ = os.Remove(filepath.Dir(c.data))
	}
	return nil
}
