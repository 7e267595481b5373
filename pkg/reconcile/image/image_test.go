// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import "testing"

func TestPinned(t *testing.T) {
	for ref, want := range map[string]bool{
		"formahub/formspec-resource:1.4.2":     true,
		"formahub/formspec-resource":           false,
		"formahub/formspec-resource:latest":    false,
		"formahub/formspec-resource:":          false,
		"localhost:5000/app":                   false,
		"localhost:5000/app:1":                 true,
		"localhost:5000/app:latest@sha256:abc": true,
		"app@sha256:abc":                       true,
		"app@sha256:":                          false,
		"app@":                                 false,
		"@sha256:abc":                          false,
		"":                                     false,
		":1":                                   false,
	} {
		if got := Pinned(ref); got != want {
			t.Errorf("Pinned(%q) = %v, want %v", ref, got, want)
		}
	}
}
