# Everything that one does here. "make" alone lists it. Needs Go, git and make; each tool is built from a pinned module
# on first use, into bin/.

SHELL := bash
.SHELLFLAGS := -o errexit -o nounset -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# What "formspec-operator version" says: the tag, and what came after it.
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo "v0.0.0-$$(git rev-parse --short HEAD 2>/dev/null || echo unknown)")
COMMIT ?= $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null || echo unknown)
version_package := github.com/formspec/formspec-operator/pkg/version
LDFLAGS := -s -w -X $(version_package).version=$(VERSION) -X $(version_package).commit=$(COMMIT)

# The image that "make image" builds. An image tag has no "v".
IMAGE ?= formahub/formspec-operator:$(VERSION:v%=%)

# Packages whose tests need nothing but Go, and flags for every "go test", such as TESTFLAGS='-run TestPlan -v'.
UNIT := ./cmd/... ./pkg/... ./hack/... ./test/manifests ./test/clustercontrol/... ./test/resource
TESTFLAGS ?=

# Makes a test fail that changes what it was given from an informer's cache.
test test-unit: export KUBE_CACHE_MUTATION_DETECTOR := true

##@ Build

.PHONY: build
build: ## Build bin/formspec-operator
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/formspec-operator ./cmd/formspec-operator

.PHONY: image
image: ## Build the container image (needs Docker or Podman)
	@for engine in docker podman; do \
	  if "$$engine" info >/dev/null 2>&1; then \
	    set -o xtrace; exec "$$engine" build --build-arg 'LDFLAGS=$(LDFLAGS)' --tag '$(IMAGE)' .; \
	  fi; \
	done; \
	echo 'make image: neither Docker nor Podman answers on this machine' >&2; exit 1

.PHONY: generate
generate: ## Regenerate what is derived from pkg/apis: clients, informers, apply configurations, CRDs
	hack/update-codegen.sh

.PHONY: fmt
fmt: bin/gofumpt ## Format the Go code
	bin/gofumpt -w .

.PHONY: clean
clean: ## Remove what was built here; the Kubernetes programs that devcluster built stay in its cache
	rm -rf bin dist

##@ Test

.PHONY: test
test: bin/testcount kubernetes ## Run all tests: unit tests, and integration tests on a real API server
	{ go test -json -race -count=1 -timeout=45m $(TESTFLAGS) ./... || status=$$?; \
	  go -C hack/devcluster test -json -count=1 -timeout=30m $(TESTFLAGS) ./... || status=$$?; \
	  exit "$${status:-0}"; } | bin/testcount -summary bin/test-summary

.PHONY: test-unit
test-unit: bin/testcount ## Run the unit tests only
	go test -json -race $(TESTFLAGS) $(UNIT) | bin/testcount

.PHONY: e2e
e2e: kubernetes ## Test the installed operator and its Workspaces in real pods: makes this machine a node (Linux, root)
	FORMSPEC_E2E=1 go test -count=1 -timeout=30m -parallel=4 -v $(TESTFLAGS) ./test/e2e

.PHONY: e2e-long
e2e-long: kubernetes ## Run the integration and end-to-end tests with more objects and longer windows, among them ten minutes of random edits
	FORMSPEC_LONG=1 go test -race -count=1 -timeout=90m -v $(TESTFLAGS) ./test/integration
	FORMSPEC_LONG=1 FORMSPEC_E2E=1 go test -count=1 -timeout=60m -parallel=4 -v $(TESTFLAGS) ./test/e2e

.PHONY: bench
bench: ## Run the Go benchmarks
	go test -run '^$$' -bench . -benchmem $(TESTFLAGS) ./cmd/... ./pkg/...

##@ Check

.PHONY: verify
verify: verify-codegen verify-fmt verify-manifests verify-scripts lint ## Everything that CI refuses to merge without; -k shows all that fails
	@echo 'make verify: all good'

.PHONY: verify-codegen
verify-codegen: ## Check that generated files and go.mod are up to date
	hack/verify-codegen.sh

.PHONY: verify-fmt
verify-fmt: bin/gofumpt ## Check that the Go code is formatted
	@files=$$(bin/gofumpt -l .); \
	if [[ -n $$files ]]; then printf 'not formatted, run "make fmt":\n%s\n' "$$files" >&2; exit 1; fi

.PHONY: verify-manifests
verify-manifests: bin/kustomize ## Check that kustomize can build the manifests, alone and with each component
	@bin/kustomize build manifests >/dev/null
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	for component in manifests/overlays/*/; do \
	  printf 'resources: [%s]\ncomponents: [%s]\n' \
	    "$$(realpath --relative-to="$$tmp" manifests)" "$$(realpath --relative-to="$$tmp" "$$component")" \
	    >"$$tmp/kustomization.yaml"; \
	  bin/kustomize build "$$tmp" >/dev/null; \
	done

.PHONY: verify-scripts
verify-scripts: ## Check the shell scripts with shellcheck, if it is installed
	@if command -v shellcheck >/dev/null; then \
	  git ls-files -z .ci '*.sh' | xargs -0 shellcheck; \
	else \
	  echo 'shellcheck is not installed (apt-get install shellcheck): scripts are not checked'; \
	fi

.PHONY: lint
lint: bin/golangci-lint bin/kube-api-linter ## Run go vet, golangci-lint (rules: .golangci.yml) and kube-api-linter (.kube-api-linter.yml)
	go vet ./...
	bin/golangci-lint run ./...
	bin/kube-api-linter run --config .kube-api-linter.yml ./pkg/apis/...
	cd hack/devcluster && go vet ./... && ../../bin/golangci-lint run ./...

##@ Try it

.PHONY: demo
demo: build bin/devcluster bin/clustercontrol $(if $(NODE),bin/formspec-resource) ## See a Workspace become pods with credentials on a simulated cluster (NODE=1, as root: and one that sleeps on a real node; ONESHOT=1: check and clean up; CONTEXT=name: use your cluster)
	NODE=$(NODE) hack/demo.sh

.PHONY: demo-down
demo-down: bin/devcluster ## End the demo
	hack/demo.sh down

# What follows is used by the targets above.

# A real control plane, built once per machine and version: about 10 minutes on two cores.
.PHONY: kubernetes
kubernetes: bin/devcluster
	bin/devcluster build

# Go decides what has to be built again.
.PHONY: bin/devcluster
bin/devcluster:
	go -C hack/devcluster build -o ../../bin/devcluster .

# The stand-in for the generic image.
.PHONY: bin/formspec-resource
bin/formspec-resource:
	CGO_ENABLED=0 go build -trimpath -o bin/formspec-resource ./test/resource

.PHONY: bin/clustercontrol
bin/clustercontrol:
	go build -o bin/clustercontrol ./test/clustercontrol/cmd/clustercontrol

.PHONY: bin/testcount
bin/testcount:
	go build -o bin/testcount ./hack/testcount

# The tools' versions are in their go.mod.
bin/gofumpt: hack/tools/go.mod
	go -C hack/tools build -o ../../bin/gofumpt mvdan.cc/gofumpt

bin/kustomize: hack/tools/go.mod
	go -C hack/tools build -o ../../bin/kustomize sigs.k8s.io/kustomize/kustomize/v5

bin/golangci-lint: hack/tools/golangci-lint/go.mod
	go -C hack/tools/golangci-lint build -o ../../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/kube-api-linter: hack/tools/kube-api-linter/go.mod
	go -C hack/tools/kube-api-linter build -o ../../../bin/kube-api-linter sigs.k8s.io/kube-api-linter/cmd/golangci-lint-kube-api-linter

.PHONY: help
help:
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
