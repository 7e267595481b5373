// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names holds the names of everything that the operator makes. One function keeps them valid and apart.
//
// No two Workspaces share a name within a kind. A name is kept as it is, or it becomes a part of it and a hash of the whole. A name that
// looks like one with a hash is never kept, so that a kept name is no other's hashed one; two hashed ones differ in the hash. A Service
// has the name of its Workspace or that with "-pods" behind it: the name of a Workspace that itself ends so is hashed, and no hash ends so.
//
// The hash has 40 bits. Of two Workspaces that somebody makes to share one, the later says NameConflict and gets no pods: whenever their
// labels are the same, the names of their Deployments are too.
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxLabel  = 63 // of a label value and of a Service name (RFC 1123, RFC 1035)
	hashChars = 10
	prefix    = "formspec-resource-"

	podsSuffix = "-pods"

	letters = "abcdef"
	digits  = "0123456789" + letters
)

// LongestDatastore is the most characters that a Datastore's name may have to be granted: with the beginning and the longest end of a
// variable's name it must be a key of a Secret, which has up to 253. Source: contract §4.
const LongestDatastore = 253 - len("FORMSPEC_DATASTORE_") - len("_PERMISSION")

// Label is the value of the label formspec.dev/workspace for a Workspace of that name.
func Label(workspace string) string { return safe("", workspace, "") }

// Deployment is the name of the Workspace's Deployment, Service, HorizontalPodAutoscaler and PodDisruptionBudget.
func Deployment(workspace string) string { return service(workspace, "") }

// ConfigMap is the name of the Workspace's ConfigMap.
func ConfigMap(workspace string) string { return Deployment(workspace) + "-config" }

// Credentials is the name of the Workspace's credentials Secret, which outlives it.
func Credentials(workspace string) string { return Deployment(workspace) + "-db-credentials" }

// Pods is the name of the Workspace's headless Service, whose EndpointSlices list its pods while the Workspace may sleep. A Service's name
// must be a DNS label, so a long one is shortened here although Deployment is short enough.
func Pods(workspace string) string { return service(workspace, podsSuffix) }

// Datastore is the name of the managed Secret of a Datastore of that name.
func Datastore(datastore string) string { return safe("formspec-datastore-", datastore, "") }

// Claim is the name of the Secret with the own login of a ResourceClaim of that name.
func Claim(claim string) string { return safe("formspec-claim-", claim, "") }

// Activator is the name of the EndpointSlice that leads the Workspace's Service to the activator.
func Activator(workspace string) string { return Deployment(workspace) + "-activator" }

// service is the name of one of the two Services of a Workspace.
func service(workspace, suffix string) string {
	if strings.HasSuffix(workspace, podsSuffix) {
		return hashed(prefix, workspace, suffix)
	}
	return safe(prefix, workspace, suffix)
}

// safe joins the parts if the result is a DNS label and the name is nobody's hashed one.
func safe(prefix, name, suffix string) string {
	if full := prefix + name + suffix; len(full) <= maxLabel && !strings.Contains(name, ".") && !looksHashed(name) {
		return full
	}
	return hashed(prefix, name, suffix)
}

// hashed replaces the name's dots, shortens it and appends a hash of the whole name, so that two names which share their beginning stay
// apart.
func hashed(prefix, name, suffix string) string {
	short, end := strings.ReplaceAll(name, ".", "-"), "-"+hash(name)+suffix
	if room := maxLabel - len(prefix) - len(end); len(short) > room {
		short = strings.TrimRight(short[:room], "-")
	}
	return prefix + short + end
}

// hash has a letter in it: a name that ends in a number of ten digits, as some that are made by machines do, does not look hashed.
func hash(name string) string {
	sum := sha256.Sum256([]byte(name))
	all := hex.EncodeToString(sum[:])
	start := max(0, strings.IndexAny(all, letters)-hashChars+1)
	return all[start : start+hashChars]
}

// looksHashed says whether the name ends as a hashed one does.
func looksHashed(name string) bool {
	i := len(name) - hashChars
	return i > 0 && name[i-1] == '-' && strings.Trim(name[i:], digits) == "" && strings.ContainsAny(name[i:], letters)
}
