// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outbox keeps what could not be sent yet, in order, within a bound, over restarts and crashes of the process.
//
// An Outbox has lanes, one an endpoint. Entries wait in a lane under a key, and a newer entry takes the place of the one with the same
// key. To send, the oldest entries of a lane are frozen into one envelope, whose bytes then stay until it is settled.
//
// A Shelf is a lane whose entries are not sent: it holds what the next process needs, and gives way to what waits.
//
// The truth is in memory; a file mirrors it. The file is a journal of checksummed frames (journal.go, frame.go): each frame is a batch
// of changes that counts as a whole or not at all. Why not a database is in docs/decisions/2026-11-30-outbox.md.
//
// Handing over (Put, Add, Remove) never touches the disk. Run writes soon after, and Flush at once.
package outbox
