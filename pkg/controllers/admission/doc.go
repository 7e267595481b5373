// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission gives out the slots of ClusterClasses (spec.maxWorkspaces).
//
// Admission is sticky: a Workspace that holds a slot keeps it until both it and its Deployment are gone, whatever happens to the limit.
// Only free slots are given out, to the Workspace that was created first. There is one ledger in the process, so that two syncs
// never give out the same slot; it is entered before the first child is written. Source: contract §2.
package admission
