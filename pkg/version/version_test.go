// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestInfo(t *testing.T) {
	vcs := func(revision, modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
	}
	for name, test := range map[string]struct {
		version, commit string
		build           debug.BuildInfo
		want            Info
	}{
		"nothing is known": {want: Info{Version: "dev", Commit: "unknown"}},
		"the linker's word comes first": {
			version: "v1.2.3", commit: "abc",
			build: debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}, Settings: vcs("def", "true")},
			want:  Info{Version: "v1.2.3", Commit: "abc"},
		},
		"a build from a changed tree": {
			build: debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs("def", "true")},
			want:  Info{Version: "dev", Commit: "def-dirty"},
		},
		"go install of a release": {
			build: debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}, Settings: vcs("def", "false")},
			want:  Info{Version: "v1.0.0", Commit: "def"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.want.GoVersion = runtime.Version()
			if got := info(test.version, test.commit, &test.build); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
