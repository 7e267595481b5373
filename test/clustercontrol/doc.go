// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustercontrol is a reference Cluster Control: a server for the wire protocol formspec-operator/1 (contract §5)
// that believes nothing. Tests and the demo run the operator against it.
//
// It reads the contract on its own: it shares no code and no types with the operator, so that a mistake in one shows in
// the other.
//
//	wire      request → Capture       one file a step: signature.go, then misbehave.go
//	log       Capture → disk          append only; a request is answered after it is on disk
//	ledger    Capture → Verdict       pure: envelope.go, schema.go and records.go read, sequence.go and metering.go count
//
// The log is the truth. What is known of nodes, workspaces, usage and violations is computed from it, again at each
// start, so a restart forgets nothing.
//
// What breaks the contract is a Violation. It is kept whatever the answer was, and a test that ends without any has
// checked the whole protocol.
package clustercontrol
