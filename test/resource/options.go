// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"
)

// options are what the environment says.
type options struct {
	// workspace is WORKSPACE_ID.
	workspace string
	// dataDir is FORMSPEC_DATA_DIR. Without it the directory for temporary files is used.
	dataDir string
	// startDelay is START_DELAY, such as 30s: how long after its start it answers. Zero without it.
	startDelay time.Duration
	// listenEarly makes everything 503 until then, if START_MODE is "unavailable". Without it, or with "closed", nothing listens until then.
	listenEarly bool
}

func newOptions(getenv func(string) string) (options, error) {
	o := options{workspace: getenv("WORKSPACE_ID"), dataDir: getenv("FORMSPEC_DATA_DIR")}
	if o.dataDir == "" {
		o.dataDir = os.TempDir()
	}
	if delay := getenv("START_DELAY"); delay != "" {
		var err error
		if o.startDelay, err = time.ParseDuration(delay); err != nil {
			return o, fmt.Errorf("START_DELAY must be a duration such as 30s: %w", err)
		}
	}
	switch mode := getenv("START_MODE"); mode {
	case "", "closed":
	case "unavailable":
		o.listenEarly = true
	default:
		return o, fmt.Errorf("START_MODE is %q and must be closed or unavailable", mode)
	}
	return o, nil
}
