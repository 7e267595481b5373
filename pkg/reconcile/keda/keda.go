// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keda has what the operator writes of the KEDA HTTP add-on's HTTPScaledObject, without depending on that project's code. It is in
// the form of a generated apply configuration, so that the kind is compared and written like every other child.
//
// Source: github.com/kedacore/http-add-on v0.12.0, config/crd/bases/http.keda.sh_httpscaledobjects.yaml.
package keda

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Kind is the kind of what is written.
const Kind = "HTTPScaledObject"

// GroupVersion of the kind.
var GroupVersion = schema.GroupVersion{Group: "http.keda.sh", Version: "v1alpha1"}

// Resource is the resource of the kind.
var Resource = GroupVersion.WithResource("httpscaledobjects")

// HTTPScaledObject is what is applied.
type HTTPScaledObject struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`
	// Spec is nil in what was applied by nobody.
	Spec *Spec `json:"spec,omitempty"`
}

// Spec of an HTTPScaledObject. Fields that the operator leaves to KEDA are not here.
type Spec struct {
	// Hosts whose requests go to the target.
	Hosts []string `json:"hosts,omitempty"`
	// ScaleTargetRef is what is scaled, and the Service that requests go to.
	ScaleTargetRef TargetRef `json:"scaleTargetRef"`
	// Replicas are the bounds.
	Replicas Replicas `json:"replicas"`
	// ScaledownPeriod in seconds: how long there is no request before it is scaled down.
	ScaledownPeriod int32 `json:"scaledownPeriod"`
}

// TargetRef names a workload and its Service in the same namespace.
type TargetRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Service    string `json:"service"`
	Port       int32  `json:"port"`
}

// Replicas are the bounds of a replica count.
type Replicas struct {
	Min int32 `json:"min"`
	Max int32 `json:"max"`
}

// New returns the configuration of an object of that name.
func New(name, namespace string) *HTTPScaledObject {
	o := &HTTPScaledObject{ObjectMetaApplyConfiguration: &metav1ac.ObjectMetaApplyConfiguration{}}
	o.WithKind(Kind).WithAPIVersion(GroupVersion.String())
	o.WithName(name).WithNamespace(namespace)
	return o
}

// IsApplyConfiguration marks it as one.
func (HTTPScaledObject) IsApplyConfiguration() {}

// WithUID sets the UID of the object to change.
func (o *HTTPScaledObject) WithUID(uid types.UID) *HTTPScaledObject {
	o.ObjectMetaApplyConfiguration.WithUID(uid)
	return o
}

// WithResourceVersion sets the version of the object to change.
func (o *HTTPScaledObject) WithResourceVersion(version string) *HTTPScaledObject {
	o.ObjectMetaApplyConfiguration.WithResourceVersion(version)
	return o
}

// GetKind returns the kind.
func (o *HTTPScaledObject) GetKind() *string { return o.Kind }

// GetName returns the name.
func (o *HTTPScaledObject) GetName() *string { return o.Name }

// GetNamespace returns the namespace.
func (o *HTTPScaledObject) GetNamespace() *string { return o.Namespace }

// fields are what extraction has to know of the kind: owner references are a list with keys, every other list is one value.
const fields = `types:
- name: object
  map:
    fields:
    - name: metadata
      type:
        map:
          fields:
          - name: ownerReferences
            type:
              list:
                elementType: {namedType: __untyped_deduced_}
                elementRelationship: associative
                keys: [uid]
          elementType: {namedType: __untyped_deduced_}
    elementType: {namedType: __untyped_deduced_}
- name: __untyped_atomic_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
- name: __untyped_deduced_
  scalar: untyped
  list: {elementType: {namedType: __untyped_atomic_}, elementRelationship: atomic}
  map: {elementType: {namedType: __untyped_deduced_}, elementRelationship: separable}
`

// Extract returns the part of an object that a field manager applied, as the generated ExtractKind functions do.
func Extract(live *unstructured.Unstructured, manager string) (*HTTPScaledObject, error) {
	parser, err := typed.NewParser(fields)
	if err != nil {
		return nil, fmt.Errorf("read the field types: %w", err)
	}
	o := &HTTPScaledObject{}
	if err := managedfields.ExtractInto(live, parser.Type("object"), manager, o, ""); err != nil {
		return nil, err
	}
	if o.ObjectMetaApplyConfiguration == nil {
		o.ObjectMetaApplyConfiguration = &metav1ac.ObjectMetaApplyConfiguration{}
	}
	o.WithKind(Kind).WithAPIVersion(GroupVersion.String())
	o.WithName(live.GetName()).WithNamespace(live.GetNamespace())
	return o, nil
}
