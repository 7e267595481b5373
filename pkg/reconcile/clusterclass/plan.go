// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"slices"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// Plan is what to do about one ClusterClass, in the order of its fields. An empty plan is the steady state.
type Plan struct {
	// Finalizer keeps the class from going while a Workspace names it.
	Finalizer reconcile.Finalizer
	// Status is the whole new status.
	Status v1alpha1.ClusterClassStatus
}

// Make decides what to do about a ClusterClass.
func Make(in Input) Plan {
	held := slices.Contains(in.Class.Finalizers, v1alpha1.ClusterClassFinalizer)
	p := Plan{Status: Status(in)}
	switch inUse := len(in.Workspaces) > 0; {
	case inUse && !held && in.Class.DeletionTimestamp == nil: // none can be added to what is going already
		p.Finalizer = reconcile.FinalizerAdd
	case !inUse && held:
		p.Finalizer = reconcile.FinalizerRemove
	}
	return p
}
