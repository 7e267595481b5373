// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reports tells Cluster Control about nodes, datastores, Workspaces and usage, and asks it for restarts. What it tells is decided
// in pkg/reconcile/report and pkg/clustercontrol/metering; how it gets there is pkg/clustercontrol's business. Source: contract §5.
//
//	every replica   Sampler    watches lives, reads metrics.k8s.io: a new leader has the samples of before its time, and a new process
//	                           those of the one before it, from the directory of the outbox
//	the leader      Leader     beats (node health), registrar, meter, restart requests
//	                Statuses   a sync loop like those of the kinds, which hands over instead of writing
//
// None of it waits for Cluster Control, and no sync loop waits for any of it. What a leader leaves to the next one, beyond its outbox, is in
// the ConfigMap formspec-operator-reports: see Notes.
package reports
