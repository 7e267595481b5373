// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/formspec/formspec-operator/pkg/controllers/lead"
)

// answers is a sink that answers each request with the same error.
type answers struct {
	events.EventSink
	err error
}

func (a answers) Create(context.Context, *eventsv1.Event) (*eventsv1.Event, error) { return nil, a.err }

func (a answers) Patch(context.Context, *eventsv1.Event, []byte) (*eventsv1.Event, error) {
	return nil, a.err
}

func TestEventSinkDropsWhatNobodyCanRecord(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	terminating := apierrors.NewForbidden(eventsv1.Resource("events"), "e", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	notFound := apierrors.NewNotFound(corev1.Resource("namespaces"), "gone")
	refused := apierrors.NewForbidden(eventsv1.Resource("events"), "e", errors.New("no right"))

	for name, tt := range map[string]struct {
		ctx           context.Context
		err           error
		create, patch bool // whether the error reaches the recorder
	}{
		"the fence is closed":         {t.Context(), lead.ErrFenced, false, false},
		"the process ends":            {ended, context.Canceled, false, false},
		"the namespace is going":      {t.Context(), terminating, false, false},
		"the namespace or event gone": {t.Context(), notFound, false, true}, // the recorder creates an event that expired anew
		"no right":                    {t.Context(), refused, true, true},
		"a canceled request":          {t.Context(), context.Canceled, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			sink := eventSink{answers{err: tt.err}}
			if _, err := sink.Create(tt.ctx, &eventsv1.Event{}); (err != nil) != tt.create {
				t.Errorf("Create: %v", err)
			}
			if _, err := sink.Patch(tt.ctx, &eventsv1.Event{}, nil); (err != nil) != tt.patch {
				t.Errorf("Patch: %v", err)
			}
		})
	}
}
