#!/usr/bin/env bash
# Copyright The FormSpec Operator Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails if go.mod is not tidy, or if hack/update-codegen.sh would change anything that is checked in. It works on a copy
# of the tree, uncommitted files included, and leaves the tree itself alone.
set -o errexit -o nounset -o pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

if ! go mod tidy -diff; then
  echo "go.mod or go.sum is not tidy; run: go mod tidy" >&2
  exit 1
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
copy=$tmp/tree
log=$tmp/log
mkdir "$copy"

# What git knows or would add, without what was deleted.
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do
    if [[ -e $file || -L $file ]]; then printf '%s\0' "$file"; fi
  done |
  tar --create --null --files-from=- --file=- | tar --extract --directory="$copy"

# An index of its own is what the result is compared with: new, changed and deleted files all show.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE # set when this runs as a git hook
git -C "$copy" init --quiet
git -C "$copy" add --all

# The copy has no commit, which is what Go would stamp into the programs that it builds.
if ! GOFLAGS="${GOFLAGS:-} -buildvcs=false" "$copy/hack/update-codegen.sh" >"$log" 2>&1; then
  cat "$log" >&2
  echo "hack/update-codegen.sh failed" >&2
  exit 1
fi

git -C "$copy" add --intent-to-add .
if ! git -C "$copy" --no-pager diff --exit-code; then
  echo "generated files are not up to date; run: make generate" >&2
  exit 1
fi
echo "generated files and go.mod are up to date"
