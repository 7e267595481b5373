// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
)

// conflictRetry is how soon a taken name is looked at again: a stranger's events name no Workspace.
const conflictRetry = 30 * time.Second

// Plan is what to do about one Workspace, in the order of its fields. An empty plan is the steady state.
type Plan struct {
	// Finalizer is added before and removed after the writes below.
	Finalizer reconcile.Finalizer
	// Apply are the children to write, in order.
	Apply []reconcile.Write
	// Delete are the children to delete, in order, after the writes.
	Delete []reconcile.Reference
	// FallsAsleep says that the plan puts a workspace to sleep that was awake. What it is decided from must be true, not only cached.
	FallsAsleep bool
	// Overridden says which fields of which children something else keeps rewriting. They are left as they are for a while.
	Overridden []string
	// Status is the whole new status.
	Status v1alpha1.WorkspaceStatus
	// After is when to look again without any event. Zero: never.
	After time.Duration
}

// Make decides what to do about a Workspace.
func Make(in Input) Plan {
	var p Plan
	switch obstacle := obstruct(in); {
	case in.Workspace.DeletionTimestamp != nil:
		p = in.terminate()
	case obstacle != nil && obstacle.evict:
		p = in.evict()
	case obstacle != nil:
		in.carryOn(&p)
		p.again(obstacle.after)
	case in.awaits() > 0:
		return Plan{Status: in.Workspace.Status, After: in.awaits()}
	default:
		p = in.converge()
	}
	p.again(in.Recheck)
	if in.restarts() {
		p.again(recordedSoon)
	}
	p.Status = Status(in, p)
	p.again(in.wakeDeadline(p.Status))
	return p
}

// again makes the plan look again after that long at the latest. Zero: no matter when.
func (p *Plan) again(after time.Duration) { p.After = reconcile.Sooner(p.After, after) }

// converge makes every child what it should be.
func (in Input) converge() Plan {
	var p Plan
	if !slices.Contains(in.Workspace.Finalizers, v1alpha1.WorkspaceFinalizer) {
		p.Finalizer = reconcile.FinalizerAdd
	}
	// The credentials come first: the Deployment refers to them.
	if in.credentialsRefused() {
		in.narrowSecret(&p)
	} else {
		apply(&p, in.Now, in.Children.Credentials, in.credentials())
	}
	apply(&p, in.Now, in.Children.ConfigMap, in.configMap())
	decided, after := in.decide()
	p.again(after)
	if p.FallsAsleep = in.fallsAsleep(); p.FallsAsleep {
		p.again(settleDelay) // a request that came while this was decided is looked for once more
	}
	in.route(&p, decided.asleep)
	switch {
	case in.incomplete():
		return p // what would guard and scale it waits, too
	case in.deploymentRefused():
		in.narrowDeployment(&p)
		return p // who scales it was decided together with the write that is refused
	}
	applyDeployment(&p, in)
	if !in.podsRefusedSince().IsZero() {
		p.again(refusedRetry)
	}
	if in.minimum() >= 2 {
		apply(&p, in.Now, in.Children.DisruptionBudget, in.disruptionBudget())
	} else {
		remove(&p, in.Workspace, "PodDisruptionBudget", in.Children.DisruptionBudget)
	}
	if in.autoscaled() {
		apply(&p, in.Now, in.Children.Autoscaler, in.autoscaler())
	} else {
		remove(&p, in.Workspace, "HorizontalPodAutoscaler", in.Children.Autoscaler)
	}
	in.scaleWithKEDA(&p)
	return p
}

// terminate freezes the credentials Secret, marks it and lets the Workspace go. Owner references take the rest.
func (in Input) terminate() Plan {
	if !slices.Contains(in.Workspace.Finalizers, v1alpha1.WorkspaceFinalizer) {
		return Plan{}
	}
	p := Plan{Finalizer: reconcile.FinalizerRemove}
	in.retain(&p)
	return p
}

// evict takes everything away from this cluster but the credentials: two clusters must never run one Workspace.
func (in Input) evict() Plan {
	var p Plan
	in.retain(&p)
	c := in.Children
	remove(&p, in.Workspace, keda.Kind, c.HTTPScaledObject)
	remove(&p, in.Workspace, "HorizontalPodAutoscaler", c.Autoscaler)
	remove(&p, in.Workspace, "PodDisruptionBudget", c.DisruptionBudget)
	remove(&p, in.Workspace, "Deployment", c.Deployment)
	remove(&p, in.Workspace, "EndpointSlice", c.Slice)
	remove(&p, in.Workspace, "Service", c.Service)
	remove(&p, in.Workspace, "Service", c.PodsService)
	remove(&p, in.Workspace, "ConfigMap", c.ConfigMap)
	return p
}

// apply adds the write of a child that differs from what is wanted, and returns it so that conditions can be added.
func apply[T reconcile.Object, C reconcile.TypedConfig[C]](p *Plan, now time.Time, child reconcile.Child[T, C], config C) *reconcile.Write {
	switch {
	case !child.Differs(config):
		return nil
	case child.Overridden(config, now):
		fields := strings.Join(child.Rewritten.Fields, ", ")
		p.Overridden = append(p.Overridden, fmt.Sprintf("%s %q: %s", *config.GetKind(), *config.GetName(), fields))
		p.again(reconcile.OverriddenRetry)
		return nil
	default:
		p.Apply = append(p.Apply, child.Write(config))
		return &p.Apply[len(p.Apply)-1]
	}
}

// remove adds the deletion of a child that exists and is the Workspace's own.
func remove[T reconcile.Object, C reconcile.TypedConfig[C]](p *Plan, ws *v1alpha1.Workspace, kind string, child reconcile.Child[T, C]) {
	if mine(ws, child) && child.Live.GetDeletionTimestamp() == nil {
		p.Delete = append(p.Delete, reconcile.Reference{Kind: kind, Name: child.Live.GetName(), UID: child.Live.GetUID()})
	}
}
