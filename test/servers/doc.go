// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servers starts real PostgreSQL and Redis servers for tests, each in a directory of its own, on a free port of
// the loopback interface, and gone when the test ends. A test is skipped where the programs are not installed.
package servers
