#!/usr/bin/env bash
# Copyright The FormSpec Operator Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates everything that is derived from the types in pkg/apis: deep copies, OpenAPI, apply configurations, clientset, listers,
# informers, scheme registration, the CRDs and the field reference docs/api.md.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
module=$(go list -m)
boilerplate=$root/hack/boilerplate.go.txt
codegen=$(go list -m -f '{{.Dir}}' k8s.io/code-generator)
export GOBIN=$root/bin/codegen # keeps the generators out of the user's own GOBIN

# shellcheck source=/dev/null
source "$codegen/kube_codegen.sh"

kube::codegen::gen_helpers --boilerplate "$boilerplate" pkg/apis

openapi=pkg/generated/openapi
kube::codegen::gen_openapi --boilerplate "$boilerplate" \
  --output-dir "$openapi" --output-pkg "$module/$openapi" \
  --output-model-name-file zz_generated.model_name.go \
  --report-filename /dev/null --update-report pkg/apis

# The apply configurations carry our own schema, so that the fake clientset can track managed fields. It is looked up by the import
# path, which +k8s:openapi-model-package therefore spells.
schema=$(mktemp)
trap 'rm -f "$schema"' EXIT
go run ./hack/openapi-schema >"$schema"

kube::codegen::gen_client --boilerplate "$boilerplate" \
  --with-watch --with-applyconfig --applyconfig-openapi-schema "$schema" \
  --output-dir pkg/generated --output-pkg "$module/pkg/generated" pkg/apis

kube::codegen::gen_register --boilerplate "$boilerplate" pkg/apis

go -C hack/tools build -o "$GOBIN/controller-gen" sigs.k8s.io/controller-tools/cmd/controller-gen
"$GOBIN/controller-gen" crd:maxDescLen=2000 paths=./pkg/apis/... output:crd:stdout >manifests/10-crds.yaml

go run ./hack/apidocs <manifests/10-crds.yaml >docs/api.md
