// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datastore understands connection strings and asks the servers behind them whether they are right.
//
// It has three layers, and only the second one touches the network:
//
//	Parse    text → Endpoint      pure; one driver a file (postgres.go, redis.go, objectstore.go, nats.go, local.go)
//	Prober   Endpoint → Result    one probe under one hard deadline: DNS, dial, TLS, authentication, query
//	Pool     many probes          bounded, off the sync workers, with back-off for hosts that do not answer
//
// Two rules hold everywhere, whatever a tenant writes and whatever a server answers:
//
// A secret is never printed. An Endpoint prints its driver, hosts and database only, in every format. Errors and
// results are fixed sentences: no byte of a connection string that could not be understood, no error text of a library
// and no text of a server is ever part of one.
//
// A connection string makes the operator do nothing but talk to the servers that it names. It cannot make it read files
// or its environment, and what it learns about a host that does not speak the protocol is "unreachable", however that
// showed.
package datastore
