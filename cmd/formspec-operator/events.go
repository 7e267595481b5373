// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"

	"github.com/formspec/formspec-operator/pkg/controllers/lead"
)

// eventSink drops the events that nobody can record any more, because this process is ending or their namespace is going or gone. client-go
// would log an error for each, and try the former again until the process is gone.
type eventSink struct{ events.EventSink }

// Create implements events.EventSink.
func (s eventSink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	recorded, err := s.EventSink.Create(ctx, event)
	if apierrors.IsNotFound(err) { // the namespace has gone
		return event, nil
	}
	return orDropped(ctx, recorded, event, err)
}

// Patch implements events.EventSink.
func (s eventSink) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	recorded, err := s.EventSink.Patch(ctx, event, data)
	return orDropped(ctx, recorded, event, err)
}

func orDropped(ctx context.Context, recorded, event *eventsv1.Event, err error) (*eventsv1.Event, error) {
	ending := errors.Is(err, lead.ErrFenced) || ctx.Err() != nil && errors.Is(err, context.Canceled)
	if ending || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return event, nil
	}
	return recorded, err
}
