// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package worker is the one queue-and-worker kit of every sync loop. It decides once what each outcome of a sync means for its key:
//
//	nil                     forget; with After, look again then
//	ErrStale                look again in 100 ms; not a failure
//	conflict, exists        rate limited, quiet
//	namespace terminating   forget
//	Terminal                forget until the next event: a user must act
//	panic                   contained, counted, shown as InternalError, rate limited
//	anything else           rate limited, logged
package worker
