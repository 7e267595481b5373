// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metering computes what Workspaces and nodes used in slots of time. It is pure: it reads no clock and asks nobody.
//
//	Slot        an interval that is aligned to UTC, so that every process cuts time at the same places
//	Integrate   the readings of one pod or node → its CPU and memory over one slot
//	Book        what was seen of pods, nodes and readings → the records of one slot
//	Saver       what is in a Book ⇄ bytes that outlive the process
//
// # How readings become an integral
//
// A reading of metrics.k8s.io is the mean of a window that ends at its timestamp. So it stands for the time since the reading before it:
// a step function, backwards. The trapezoid would take half of each reading for a time that it does not describe, and make a start-up
// peak cost more than it did. Memory, which is a moment's value, goes by the same steps: at readings every 15 s to 60 s and slots of
// minutes the difference is noise, and one rule is easier to check on an invoice than two.
//
// A reading stands for no more than Hold before it, and the last one of a pod for no more than Hold after it. Time without readings
// beyond that costs nothing: usage that nobody saw is not invented.
package metering
