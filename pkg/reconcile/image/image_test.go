// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"strings"
	"testing"

	"github.com/formspec/formspec-operator/pkg/reconcile/image"
)

func TestPinned(t *testing.T) {
	sha256 := "sha256:" + strings.Repeat("0a", 32)
	for ref, want := range map[string]bool{
		"formahub/formspec-resource:1.4.2":        true,
		"app:1":                                   true,
		"localhost:5000/app:1.4.2":                true,
		"registry.example.com:5000/team/app:v1.0": true,
		"app@" + sha256:                           true,
		"app:latest@" + sha256:                    true,
		"localhost:5000/app@" + sha256:            true,
		"localhost:5000/app:1.4.2@" + sha256:      true,
		"app@sha512:" + strings.Repeat("0a", 64):  true,
		"app:latest-1.4":                          true,

		"":                                      false,
		"app":                                   false,
		"app:latest":                            false,
		"localhost:5000/app":                    false,
		"localhost:5000/app:latest":             false,
		"registry.example.com:5000/team/app":    false,
		"app:":                                  false,
		"app:1 2":                               false,
		"app:1:2":                               false,
		":1":                                    false,
		"team/:1":                               false,
		"app@":                                  false,
		"app@sha256:abc":                        false,
		"app:@" + sha256:                        false,
		"@" + sha256:                            false,
		"app@" + strings.ToUpper(sha256):        false,
		"app@" + sha256 + "@" + sha256:          false,
		"app:" + strings.Repeat("a", 129):       false,
		"app@md5:" + strings.Repeat("0a", 16):   false,
		"app@sha256:" + strings.Repeat("z", 64): false,
	} {
		if got := image.Pinned(ref); got != want {
			t.Errorf("Pinned(%q) = %t, want %t", ref, got, want)
		}
	}
}
