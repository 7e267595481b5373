// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command openapi-schema prints the OpenAPI document of our types, which applyconfiguration-gen reads.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/formspec/formspec-operator/pkg/generated/openapi"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "openapi-schema:", err)
		os.Exit(1)
	}
}

func run() error {
	definitions := spec.Definitions{}
	ref := func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) }
	for name, definition := range openapi.GetOpenAPIDefinitions(ref) {
		schema := definition.Schema
		if v2, ok := schema.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			schema = v2
		}
		definitions[name] = schema
	}
	return json.NewEncoder(os.Stdout).Encode(&spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Swagger: "2.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "formspec.dev", Version: "v1alpha1"}},
		Paths: &spec.Paths{}, Definitions: definitions,
	}})
}
