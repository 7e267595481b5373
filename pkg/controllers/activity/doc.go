// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package activity knows when Workspaces last had a request. Activators tell by renewing one Lease per Workspace, named by its UID; what
// counts is when this process saw that, by its own monotonic clock, and since when it could have seen it. Source: contract §6.
package activity
