// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Config is the generated apply configuration of any kind of child.
type Config interface {
	runtime.ApplyConfiguration
	GetKind() *string
	GetNamespace() *string
	GetName() *string
}

// TypedConfig is the generated apply configuration C of one kind.
type TypedConfig[C any] interface {
	Config
	WithUID(types.UID) C
	WithResourceVersion(string) C
}

// Object is a pointer to an API object of one kind.
type Object interface {
	comparable
	metav1.Object
}

// Child is one child as the cache has it.
type Child[T Object, C TypedConfig[C]] struct {
	// Live is the cached object. Nil: the cache has none of this name.
	Live T
	// Ours is the part of Live that our field manager applied (Extract<Kind>).
	Ours C
	// Legacy says that an operator which wrote by updates owns fields of Live. They are taken over once.
	Legacy bool
	// Rewritten is our last write, if something changed it on its way in. Nil: it arrived as it was sent.
	Rewritten *Rewritten
}

// Rewritten is a write that a policy or a webhook changed.
type Rewritten struct {
	// Asked is the fingerprint of what was sent, and Got that of what is left of it as ours.
	Asked, Got string
	// Fields are those that were changed.
	Fields []string
	// At is when it was sent.
	At time.Time
}

// Hidden says that the label was changed by which the caches select what is ours: they do not show the child.
func (r Rewritten) Hidden() bool {
	return slices.Contains(r.Fields, "metadata.labels."+v1alpha1.LabelManagedBy)
}

// Exists says whether the cache has the child.
func (c Child[T, C]) Exists() bool {
	var none T
	return c.Live != none
}

// Differs says whether the child is not what is wanted: nothing is there yet, or what we applied is something else. Drift in our fields and
// fields that we no longer want are found alike; other people's fields do not count.
func (c Child[T, C]) Differs(want C) bool {
	return !c.Exists() || c.Legacy || !equality.Semantic.DeepEqual(c.Ours, want)
}

// Overridden says whether sending want again would only be changed again, because it was so a short time ago.
func (c Child[T, C]) Overridden(want C, now time.Time) bool {
	r := c.Rewritten
	if r == nil || now.Sub(r.At) >= OverriddenRetry || r.Asked != Fingerprint(want) {
		return false
	}
	if !c.Exists() {
		return r.Hidden()
	}
	return r.Got == Fingerprint(c.Ours)
}

// Legacy says whether an operator that wrote by updates owns fields of the object.
func Legacy(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.LegacyManager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
	})
}

// OverriddenRetry is how long a child that something rewrites is left as it is.
const OverriddenRetry = 5 * time.Minute

// Write returns the write of want: it creates a child whose name is free, or changes the object that is in the cache and no other.
func (c Child[T, C]) Write(want C) Write {
	if !c.Exists() {
		return Write{Config: want, Create: true}
	}
	return Write{Config: want, UID: c.Live.GetUID(), Adopt: c.Legacy}
}

// Write is one child to write, with the preconditions.
type Write struct {
	// Config is what the child should be.
	Config Config
	// Create says that the cache has no such child: the write fails if the name is taken.
	Create bool
	// UID of the object to change. Empty with Create.
	UID types.UID
	// ResourceVersion of the object to change, where that matters. Empty: any.
	ResourceVersion string
	// Adopt says that fields are to be taken over from an operator that wrote by updates.
	Adopt bool
	// KeepReplicas says that a Deployment which the cache does not show as it is keeps its replicas, if it has any: an autoscaler chose them.
	KeepReplicas bool
}

// Reference names one child to delete, by UID so that a successor of the same name is spared. Without a UID whatever has the name goes.
type Reference struct {
	Kind string
	Name string
	UID  types.UID
}

// Finalizer is what a plan does with the operator's finalizer on its object.
type Finalizer int

// What a plan does with the finalizer: nothing, add it before the first write, or remove it after the last.
const (
	FinalizerKeep Finalizer = iota
	FinalizerAdd
	FinalizerRemove
)

// Event is one Kubernetes Event to record about the object of a plan.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is the reason of the condition that changed.
	Reason string
	// Action is what the operator did, in one CamelCase word.
	Action string
	// Note is for people.
	Note string
}
