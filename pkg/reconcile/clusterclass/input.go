// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterclass decides what to say about a ClusterClass, and whether it may go.
package clusterclass

import (
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Input is everything that a plan depends on.
type Input struct {
	// Now is the time of the decision.
	Now time.Time
	// AllowUnpinned accepts an image without a version (--dev).
	AllowUnpinned bool
	// Class is the object itself, never nil.
	Class *v1alpha1.ClusterClass
	// Workspaces names the Workspaces whose spec names the class, as namespace/name, sorted.
	Workspaces []string
	// Admitted counts the Workspaces that hold one of the class's slots, those that are going included.
	Admitted int
}
