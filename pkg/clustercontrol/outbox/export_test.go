// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package outbox

// ErrPaced is errPaced.
var ErrPaced = errPaced

// EmptyFrame is the length of a frame without changes, which a new journal starts with.
const EmptyFrame = frameHeader + 1

// BreakJournal lets the next write fail, as on a disk that is full.
func (o *Outbox) BreakJournal() { _ = o.journal.file.Close() }
