// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"
)

// contextBeyond is for cleaning up after a test, whose own context has ended by then.
func contextBeyond(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }
