// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ErrStale reports that an informer has not yet seen one of our own writes.
var ErrStale = errors.New("informer cache is behind our own writes")

type terminalError struct{ error }

func (e terminalError) Unwrap() error { return e.error }

// Terminal marks an error that retrying cannot fix: its key waits for the next event.
func Terminal(err error) error { return terminalError{err} }

type panicError struct {
	value any
	stack []byte
}

func (e panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// outcome is what became of one sync, as a metric label.
type outcome string

const (
	succeeded   outcome = "success"
	stale       outcome = "stale"
	conflicted  outcome = "conflict"
	terminating outcome = "namespace_terminating"
	terminal    outcome = "terminal"
	panicked    outcome = "panic"
	failed      outcome = "error"
)

func classify(err error) outcome {
	var permanent terminalError
	var crash panicError
	switch {
	case err == nil:
		return succeeded
	case errors.As(err, &crash):
		return panicked
	case errors.Is(err, ErrStale):
		return stale
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return terminating
	case errors.As(err, &permanent):
		return terminal
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return conflicted
	default:
		return failed
	}
}

// cut says whether an error only means that the process is going down.
func cut(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}
