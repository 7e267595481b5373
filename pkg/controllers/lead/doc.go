// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lead lets one replica act at a time.
//
// The election itself is client-go's. It is no fence: after a failed renewal it may go on for longer than the lease lasts, and a
// process that was stopped and resumed believes what it knew before. So each successful write of the lease stamps the moment before
// it was sent, a [Fence] lets requests out only while that stamp is fresh, and a watchdog ends the work when it is not. All of it
// ends before any other replica could take the lease, and a fence that has closed never opens again: the process must end.
//
// The order on a signal is: the work is told to stop, it drains while the lease is still renewed, the fence closes, and only then
// is the lease released.
package lead
