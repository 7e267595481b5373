// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the four kinds of the API group formspec.dev. These types are the only source of the
// clientset, listers, informers, apply configurations, OpenAPI, CRDs and the field reference.
//
// The published fields are a promise: an object that was valid stays valid for ever. Optional fields may be added;
// nothing is renamed, made required or tightened, and nothing in status is required.
//
// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.formspec.formspec-operator.pkg.apis.formspec.v1alpha1
// +groupName=formspec.dev
package v1alpha1
