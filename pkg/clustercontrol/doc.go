// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustercontrol is the client side of the wire protocol formspec-operator/1. Source: contract §5.
//
//	reporters ─► Sender ─► outbox ─► one worker per endpoint ─► Client ─► POST, signed
//	             Poller ◄───────────────────────────────────── Client ◄─ GET deploy-status
//
// Two promises hold, whatever Cluster Control does. It never disturbs: handing a record over (Reporter) takes a moment and is bounded in
// memory and on disk, requests have deadlines, and what is retried backs off. And it is quiet: an outage is one line in the log when
// it begins and one when it ends.
//
// What may be lost and what may not is decided per endpoint:
//
//	register           coalesces per id; a deregistration always arrives
//	node-health        sent once or not at all
//	metering           kept, at least once; a full outbox gives up the oldest, and says so
//	workspace-status   the latest of each Workspace
//	samples            not sent: what the next process meters open slots from; a full outbox gives them up first
//
// An envelope that was handed to the network is frozen: until it is settled exactly its bytes are sent again, also by the next process.
// So after an outage in which Cluster Control took connections and did not answer well, a Workspace may be reported twice, as it was
// when the outage began and as it is now. An envelope for which no connection could be made was not handed over, and is made anew.
//
// In an outage each endpoint makes at most one request at a time: node-health one a beat (15 s), the others back off from one second to
// five minutes, and deploy-status from ten seconds to five minutes.
//
// The subpackages know nothing of the network: outbox is the queue, metering the arithmetic of slots, identity the key in its Secret.
package clustercontrol
