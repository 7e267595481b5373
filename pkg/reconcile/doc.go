// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile is the functional core: everything that needs thought is a pure function from what was observed to what should be.
//
// Below it is one package per kind with the same files: input (what was observed), plan (what to do), one builder per child, status.
// Nothing here knows a client, a lister, a context or a clock; a linter enforces that.
package reconcile
