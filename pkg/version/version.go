// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version says which build this is. Nothing here may go into an object that the operator writes: an upgrade of the operator
// must not roll a single workload.
package version

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// Set by the linker: -ldflags "-X <this package>.version=v1.2.3 -X <this package>.commit=<hash>".
var version, commit string

// Info describes a build. No field is ever empty.
type Info struct {
	// Version is the release, or "dev" for a build that is none.
	Version string
	// Commit is the source revision, or "unknown"; it ends in "-dirty" when the tree had changes.
	Commit string
	// GoVersion is the version of the compiler, such as "go1.26.1".
	GoVersion string
}

// Get returns what the linker was told, else what the Go tool has recorded in the binary.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return info(version, commit, build)
}

func info(version, commit string, build *debug.BuildInfo) Info {
	module := build.Main.Version
	if module == "(devel)" {
		module = ""
	}
	settings := make(map[string]string, len(build.Settings))
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return Info{
		Version:   cmp.Or(version, module, "dev"),
		Commit:    cmp.Or(commit, revision, "unknown"),
		GoVersion: runtime.Version(),
	}
}
