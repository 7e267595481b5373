// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report decides what Cluster Control is told about what was observed. Source: contract §5.
//
//	node.go            a node's health and registration
//	datastore.go       a datastore's or cache's registration
//	registrations.go   which registrations to propose and which to take back
//	status.go          a Workspace's status
//	usage.go           how long pods lived, and whose storage is whose
//
// Nothing here quotes what users wrote beyond the names and labels that the contract has: no messages, no endpoints, no specs.
package report
