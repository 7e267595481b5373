// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"
)

// contextBeyond is for cleaning up after a test, whose own context has ended by then.
func contextBeyond(tb testing.TB) context.Context {
	tb.Helper()
	return context.WithoutCancel(tb.Context())
}
