// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// From level 8 on client-go prints bodies, and so what is in Secrets.
func TestNoLevelOfTheLogPrintsBodies(t *testing.T) {
	logging, flags := newLoggingOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
	logging.addFlags(flags)
	if err := flags.Parse([]string{"-v=10", "--vmodule=request=9,sync=5"}); err != nil {
		t.Fatal(err)
	}
	logging.limit()
	if logging.Verbosity != 7 {
		t.Errorf("-v=10 counts as %d, want 7", logging.Verbosity)
	}
	if have := logsapi.VModuleConfigurationPflag(&logging.VModule).String(); have != "request=7,sync=5" {
		t.Errorf("--vmodule counts as %s", have)
	}
}
