// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/reconcile"
)

func TestSooner(t *testing.T) {
	for _, test := range []struct{ a, b, want time.Duration }{
		{0, 0, 0},
		{0, 3, 3},
		{3, 0, 3},
		{3, 5, 3},
		{5, 3, 3},
		{-1, 3, 3},
		{3, -1, 3},
		{-1, -1, 0},
	} {
		if got := reconcile.Sooner(test.a, test.b); got != test.want {
			t.Errorf("Sooner(%d, %d) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
