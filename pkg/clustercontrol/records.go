// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Kind is what a Registration is about.
type Kind string

// The kinds of registrations. Source: contract §5.1.
const (
	KindNode      Kind = "node"
	KindDatastore Kind = "datastore"
	KindCache     Kind = "cache"
)

// Action is what a Registration proposes.
type Action string

// The actions of registrations. Source: contract §5.1.
const (
	ActionRegister   Action = "register"
	ActionDeregister Action = "deregister"
)

// The keys of a Registration's capacity. What is not known has no key.
const (
	CapacityCPUMillicores  = "cpu_millicores"
	CapacityMemoryBytes    = "memory_bytes"
	CapacityPods           = "pods"
	CapacityMaxConnections = "max_connections"
	CapacityStorageGB      = "storage_gb"
)

// Registration says that a node, datastore or cache was first seen, has changed, or is gone. It never holds credentials.
// Source: contract §5.1.
type Registration struct {
	Kind Kind `json:"kind"`
	// ID is unique among those of the kind: a node's name, or namespace/name of a Datastore.
	ID     string `json:"id"`
	Action Action `json:"action"`
	// Labels by which Cluster Control places. Nil is sent as {}.
	Labels map[string]string `json:"labels"`
	// Capacity by the Capacity constants. Nil is sent as {}.
	Capacity map[string]int64 `json:"capacity"`
	// JoinToken is what Cluster Control gave out for a node that joins. Empty: left out.
	JoinToken string `json:"join_token,omitempty"`
}

// Health is how a node is.
type Health string

// The values of Health. Source: contract §5.2.
const (
	HealthHealthy   Health = "healthy"
	HealthDegraded  Health = "degraded"
	HealthUnhealthy Health = "unhealthy"
)

// NodeReport is one node in one beat. Source: contract §5.2.
type NodeReport struct {
	Node   string `json:"node"`
	Status Health `json:"status"`
	// Reasons say why Status is not healthy, as single words. Nil is sent as [].
	Reasons []string `json:"reasons"`
	// Labels of the node. Nil is sent as {}.
	Labels map[string]string `json:"labels"`
	// Workspaces that have a pod on the node.
	Workspaces int64 `json:"workspaces"`
	// Allocatable to pods.
	Allocatable Amounts `json:"allocatable"`
	// Usage now, or nil without a metrics API.
	Usage *Amounts `json:"usage"`
}

// Amounts of CPU and memory.
type Amounts struct {
	CPUMillicores int64 `json:"cpu_millicores"`
	MemoryBytes   int64 `json:"memory_bytes"`
}

// UsageRecord is what a Workspace, or a node, used in one slot. A node's record has Node and neither Namespace nor Workspace.
// Source: contract §5.3; package metering computes it.
type UsageRecord struct {
	// IdempotencyKey is cluster/uid/slot. The server takes the first body of each key.
	IdempotencyKey string `json:"idempotency_key"`
	// Slot is the start of the slot, in UTC and RFC 3339.
	Slot      string    `json:"slot"`
	Namespace string    `json:"namespace,omitempty"`
	Workspace string    `json:"workspace,omitempty"`
	Node      string    `json:"node,omitempty"`
	UID       types.UID `json:"uid"`
	// CPUMillicoreSeconds and MemoryByteSeconds are the integrals over the slot. 0 while asleep, nil where something ran and nothing was
	// measured.
	CPUMillicoreSeconds *int64 `json:"cpu_millicore_seconds"`
	MemoryByteSeconds   *int64 `json:"memory_byte_seconds"`
	// StorageBytes at the end of the slot, or nil where no driver can tell.
	StorageBytes *int64 `json:"storage_bytes"`
	// PodSeconds are the seconds of the slot that each pod lived, summed over pods.
	PodSeconds int64 `json:"pod_seconds"`
}

// StatusRecord is how a Workspace is. Source: contract §5.4.
type StatusRecord struct {
	Namespace       string    `json:"namespace"`
	Workspace       string    `json:"workspace"`
	UID             types.UID `json:"uid"`
	Phase           string    `json:"phase"`
	ReadyReplicas   int32     `json:"ready_replicas"`
	DesiredReplicas int32     `json:"desired_replicas"`
	// Conditions without their messages, which quote what users wrote. Nil is sent as [].
	Conditions         []Condition `json:"conditions"`
	ObservedGeneration int64       `json:"observed_generation"`
	// RestartRequiredConsumed is the cursor of the newest restart request that the pod template carries
	// (status.artifact.cursor). 0: left out.
	RestartRequiredConsumed int64 `json:"restart_required_consumed,omitempty"`
}

// Condition is a condition's type, status and reason.
type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// RestartRequest asks for new pods of a Workspace, whose binary they cannot swap themselves. Source: contract §5.5.
type RestartRequest struct {
	Namespace string `json:"namespace"`
	Workspace string `json:"workspace"`
	// Phase is PhaseRestartRequired; items with another are left out.
	Phase string `json:"phase"`
	// BinaryHash becomes the pod template's annotation formspec.dev/artifact-binary-hash. Never empty.
	BinaryHash string `json:"binary_hash"`
	// ArtifactID and Version are for people.
	ArtifactID string `json:"artifact_id"`
	Version    string `json:"version"`
}

// PhaseRestartRequired is the one phase of deploy-status that the operator acts on.
const PhaseRestartRequired = "restart_required"

// IdempotencyKey is the key of a Workspace's or node's usage in the slot that starts at start, which SlotName names.
func IdempotencyKey(cluster string, uid types.UID, start time.Time) string {
	return cluster + "/" + string(uid) + "/" + SlotName(start)
}

// SlotName is the start of a slot in UTC and RFC 3339. It does not depend on who computes it.
func SlotName(start time.Time) string { return start.UTC().Format(time.RFC3339) }
