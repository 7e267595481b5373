package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// reaper is the name under which the watcher of "up --die-with" is recorded.
const reaper = "reap"

// startReaper starts a process which brings the instance down as soon as the
// process parent is gone, however it ended: a test binary that is killed for
// taking too long has no chance to clean up.
func (c *instance) startReaper(ctx context.Context, parent int) error {
	if !alive(parent) {
		return fmt.Errorf("--die-with: no process %d", parent)
	}
	// One watcher per instance: the newest parent counts.
	if err := c.stopComponents(ctx, false, reaper); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return c.spawn(reaper, self, []string{"reap", "--name", c.name, "--pid", strconv.Itoa(parent)})
}

// reap waits for the end of process parent and then wipes the instance.
func (c *instance) reap(ctx context.Context, parent int, log *progress) error {
	// The start time tells the parent from a later process with its id.
	start := startTime(parent)
	for alive(parent) && startTime(parent) == start {
		if err := sleep(ctx, 250*time.Millisecond); err != nil {
			return nil // stopped by "down"
		}
	}
	log.line("process %d is gone", parent)
	return c.down(ctx, true, log)
}
