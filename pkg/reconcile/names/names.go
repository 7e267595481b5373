// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names holds the names of everything that the operator makes. One function keeps them valid and apart.
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
)

// LongestDatastore is the most characters that a Datastore's name may have to be granted: with the beginning and the longest end of a
// variable's name it must be a key of a Secret, which has up to 253. Source: contract §4.
const LongestDatastore = 253 - len("FORMSPEC_DATASTORE_") - len("_PERMISSION")

// Label is the value of the label formspec.dev/workspace for a Workspace of that name.
func Label(workspace string) string { return safe("", workspace) }

// Deployment is the name of the Workspace's Deployment, Service, HorizontalPodAutoscaler and PodDisruptionBudget.
func Deployment(workspace string) string { return safe(prefix, workspace) }

// ConfigMap is the name of the Workspace's ConfigMap.
func ConfigMap(workspace string) string { return Deployment(workspace) + "-config" }

// Credentials is the name of the Workspace's credentials Secret, which outlives it.
func Credentials(workspace string) string { return Deployment(workspace) + "-db-credentials" }

// Pods is the name of the Workspace's headless Service, whose EndpointSlices list its pods while the Workspace may sleep. A Service's name
// must be a DNS label, so a long one is shortened here although Deployment is short enough.
func Pods(workspace string) string {
	if name := Deployment(workspace) + podsSuffix; len(name) <= maxLabel {
		return name
	}
	sum := sha256.Sum256([]byte(workspace))
	hash := hex.EncodeToString(sum[:])[:hashChars]
	room := maxLabel - len(prefix) - len(hash) - 1 - len(podsSuffix)
	short := strings.TrimRight(strings.ReplaceAll(workspace, ".", "-")[:room], "-")
	return prefix + short + "-" + hash + podsSuffix
}

// Datastore is the name of the managed Secret of a Datastore of that name.
func Datastore(datastore string) string { return safe("formspec-datastore-", datastore) }

// Claim is the name of the Secret with the own login of a ResourceClaim of that name.
func Claim(claim string) string { return safe("formspec-claim-", claim) }

// Activator is the name of the EndpointSlice that leads the Workspace's Service to the activator.
func Activator(workspace string) string { return Deployment(workspace) + "-activator" }

// safe joins the two parts if the result is a DNS label; else it replaces dots, shortens the name and appends a hash of the whole
// name, so that two names which share their beginning stay apart.
func safe(prefix, name string) string {
	if full := prefix + name; len(full) <= maxLabel && !strings.Contains(name, ".") {
		return full
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:])[:hashChars]
	short := strings.ReplaceAll(name, ".", "-")
	if room := maxLabel - len(prefix) - len(hash) - 1; len(short) > room {
		short = strings.TrimRight(short[:room], "-")
	}
	return prefix + short + "-" + hash
}
