// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package activator is the proxy in front of Workspaces that may sleep. While a Workspace sleeps its Service leads here: a request is held,
// the operator is asked to wake the Workspace, and once a pod is ready the request goes on as if it had come to the pod.
//
// A request takes this way: routes finds the Workspace by Host; the reverse proxy of net/http/httputil copies the request; transport waits
// in the holds for an endpoint that is Ready and can be dialled, and then sends it. Nothing of the body is read before. The Leases that ask
// for a wake, and tell of traffic, are kept by the package leases.
//
// The activator writes nothing but these Leases. It holds on to what its caches know while the API server is away.
//
// Source: contract §6.
package activator
