// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leases tells the operator of traffic, and asks it for wakes, by one Lease per Workspace. To the operator a Lease that changes
// means "there is traffic", whoever changes it. So a Workspace is busy while somebody renews its Lease at least once in its idle window.
//
// A Workspace is renewed once in a quarter of its window while there is traffic, over all replicas: each sees the others' renewals and
// leaves its own out. The last renewal comes after the last request, never before, so that the window is counted from there.
// Wakes go first and at once. Renewals share a budget of writes; it is exceeded only where a busy Workspace would be taken for idle.
//
// Source: contract §6.
package leases
