// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the operator, as the process that users run, against a real Kubernetes control plane: schemas, defaults,
// conflicts, field ownership, garbage collection, scheduling and rights are those of the API server and its controllers.
//
// [TestMain] brings up one control plane (hack/devcluster) and one operator, both of which all tests share; each test has a namespace
// and classes of its own. Whatever the operator sends is read from the API server's audit log. No test sleeps: it waits for a state with
// a deadline, or watches that a state lasts. Datastores are real, too: the first test that needs PostgreSQL or Redis starts it for all.
//
// Tests that stop, kill or restart something that others use are parts of [TestAlone] and [TestSleep], which have a control plane each.
//
//	go test ./test/integration                        # FORMSPEC_LONG=1 for more objects and longer windows
//	go test ./test/integration -run TestDrift -v
package integration
