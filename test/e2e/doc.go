// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests what needs pods that really run: the operator as manifests/ install it, Workspaces that answer requests, restarts
// under traffic, fail-over, credentials that log in.
//
// [TestMain] makes this machine the node of a control plane (hack/devcluster), next to two simulated nodes, and installs the operator
// from manifests/ in an image that is built here. The generic image is the stand-in of test/resource. All tests share that cluster; each
// has a namespace and classes of its own. Workspaces run on the real node unless a test asks for [simulated].
//
// It changes the machine's network while it runs and needs root, so it has to be asked for:
//
//	make e2e                                              # TESTFLAGS='-run TestFailover'
//	make e2e-long                                         # the sizes and times of the issues, and latencies; FORMSPEC_LONG=1
//	FORMSPEC_E2E=1 go test -v ./test/e2e -run TestClaim
//
// What its tests measure they log, and docs/performance.md has it.
//
// A test begins with [given] and goes on as in test/integration: it waits for states with a deadline and never sleeps. Tests that take
// something away from the operator are not parallel, so they run before those that are.
package e2e
