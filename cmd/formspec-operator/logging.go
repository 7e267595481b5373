// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
)

// maxVerbosity is the highest level that prints nothing of Secrets. From the next one on, client-go logs the bodies of requests and responses.
const maxVerbosity logsapi.VerbosityLevel = 7

// loggingOptions are the logging flags that are worth having: component-base's own set adds a dozen that are alpha.
type loggingOptions struct{ *logsapi.LoggingConfiguration }

func newLoggingOptions() loggingOptions {
	return loggingOptions{logsapi.NewLoggingConfiguration()}
}

func (o loggingOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Format, "logging-format", o.Format, "Format of the log: text or json.")
	fs.VarP(logsapi.VerbosityLevelPflag(&o.Verbosity), "v", "v", "Detail of the log: 0 life cycle, 2 writes and state changes, 4 each sync, 5 differences. Levels above 7 would print what is in Secrets and count as 7.")
	fs.Var(logsapi.VModuleConfigurationPflag(&o.VModule), "vmodule", "Detail for files that match a pattern, as pattern=N,... (text format only).")
}

// limit takes back what would print Secrets.
func (o loggingOptions) limit() {
	o.Verbosity = min(o.Verbosity, maxVerbosity)
	for i := range o.VModule {
		o.VModule[i].Verbosity = min(o.VModule[i].Verbosity, maxVerbosity)
	}
}

// apply sets up logging for the whole process.
func (o loggingOptions) apply() error {
	o.limit()
	if err := logsapi.ValidateAndApply(o.LoggingConfiguration, nil); err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	return nil
}
