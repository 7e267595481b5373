// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply is the one way that a child is written, and the memory of what was written.
//
// A child is created by a server-side apply that fails if the name is taken, and changed by one that names the UID of what it changes.
// Nothing is read first. Only when a name turns out to be taken, one live read tells a stranger from our own object that the cache has
// not seen.
package apply
