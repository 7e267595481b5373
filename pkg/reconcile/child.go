// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// CreateOnly as the resourceVersion of an apply creates an object whose name is free and answers 409 for a name that is taken, so that
// nothing foreign is taken over and nothing has to be read first.
const CreateOnly = "1"

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
}

// Exists says whether the cache has the child.
func (c Child[T, C]) Exists() bool {
	var none T
	return c.Live != none
}

// Differs says whether want has to be sent: nothing is there yet, or what we applied is not what is wanted. Drift in our fields and fields
// that we no longer want are found alike; other people's fields do not count.
func (c Child[T, C]) Differs(want C) bool {
	return !c.Exists() || !equality.Semantic.DeepEqual(c.Ours, want)
}

// Write returns the write of want with its precondition: the name is free, or the object is still the one in the cache.
func (c Child[T, C]) Write(want C) Write {
	if !c.Exists() {
		return Write{Config: want.WithResourceVersion(CreateOnly), Create: true}
	}
	return Write{Config: want.WithUID(c.Live.GetUID())}
}

// Write is one child to write.
type Write struct {
	// Config is what the child should be, with the precondition of the write.
	Config Config
	// Create says that the cache has no such child.
	Create bool
}

// Reference names one child to delete, by UID so that a successor of the same name is spared.
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
