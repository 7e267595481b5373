// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import "time"

// Endpoint is one of the paths below /v1/operator/.
type Endpoint string

// The endpoints of contract §5.1 to §5.5. The first four are posted to, the last one is polled.
const (
	Register        Endpoint = "register"
	Health          Endpoint = "node-health"
	Metering        Endpoint = "metering"
	WorkspaceReport Endpoint = "workspace-status"
	DeployStatus    Endpoint = "deploy-status"
)

// Endpoints returns all of them, in the order of the contract.
func Endpoints() []Endpoint {
	return []Endpoint{Register, Health, Metering, WorkspaceReport, DeployStatus}
}

// Registration is a record of §5.1.
type Registration struct {
	Cluster  string            `json:"cluster"` // of the envelope
	Kind     string            `json:"kind"`
	ID       string            `json:"id"`
	Action   string            `json:"action"`
	Labels   map[string]string `json:"labels"`
	Capacity map[string]int64  `json:"capacity"`
	Received time.Time         `json:"received"`
}

// Amount is what a node has, or uses, of processors and memory.
type Amount struct {
	CPUMillicores int64 `json:"cpu_millicores"`
	MemoryBytes   int64 `json:"memory_bytes"`
}

// Node is the newest record of §5.2 of a node.
type Node struct {
	Cluster     string            `json:"cluster"` // of the envelope
	Name        string            `json:"node"`
	Status      string            `json:"status"`
	Reasons     []string          `json:"reasons"`
	Labels      map[string]string `json:"labels"`
	Workspaces  int64             `json:"workspaces"`
	Allocatable Amount            `json:"allocatable"`
	Usage       *Amount           `json:"usage"` // nil: there is no metrics API
	LastBeat    time.Time         `json:"last_beat"`
	// Dead means that three beats were missed. It is computed when asked.
	Dead bool `json:"dead"`
}

// Usage is a record of §5.3, of a workspace or of a node.
type Usage struct {
	Cluster   string    `json:"cluster"` // of the envelope
	Key       string    `json:"idempotency_key"`
	Slot      time.Time `json:"slot"`
	Namespace string    `json:"namespace,omitempty"`
	Workspace string    `json:"workspace,omitempty"`
	Node      string    `json:"node,omitempty"`
	UID       string    `json:"uid"`
	// Nil: nobody could tell.
	CPUMillicoreSeconds *int64 `json:"cpu_millicore_seconds"`
	MemoryByteSeconds   *int64 `json:"memory_byte_seconds"`
	StorageBytes        *int64 `json:"storage_bytes"`
	PodSeconds          *int64 `json:"pod_seconds"`
}

// Condition is one of a Workspace.
type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// Workspace is the newest record of §5.4 of a Workspace.
type Workspace struct {
	Cluster            string      `json:"cluster"` // of the envelope
	Namespace          string      `json:"namespace"`
	Name               string      `json:"workspace"`
	UID                string      `json:"uid"`
	Phase              string      `json:"phase"`
	ReadyReplicas      int64       `json:"ready_replicas"`
	DesiredReplicas    int64       `json:"desired_replicas"`
	Conditions         []Condition `json:"conditions"`
	ObservedGeneration int64       `json:"observed_generation"`
	// Consumed is the cursor of a restart that the pods were restarted for. 0: none is reported.
	Consumed int64 `json:"restart_required_consumed,omitempty"`
	// Instance, SentAt and Received are of the envelope.
	Instance string    `json:"instance_id"`
	SentAt   time.Time `json:"sent_at"`
	Received time.Time `json:"received"`
}

// Condition returns the condition of a type. The zero value: it was not reported.
func (w Workspace) Condition(name string) Condition {
	for _, condition := range w.Conditions {
		if condition.Type == name {
			return condition
		}
	}
	return Condition{}
}

// recordSchemas are the records of each endpoint that is posted to. Every field is required unless the contract marks it
// with a question mark, and null is an answer only where the contract has one.
func recordSchemas() map[Endpoint]check {
	amount := object(map[string]check{"cpu_millicores": count, "memory_bytes": count})
	return map[Endpoint]check{
		Register: object(map[string]check{
			"kind":        oneOf("node", "datastore", "cache"),
			"id":          text,
			"action":      oneOf("register", "deregister"),
			"labels":      dictionary(anyText),
			"capacity":    dictionary(count),
			"join_token?": text,
		}),
		Health: object(map[string]check{
			"node":        text,
			"status":      oneOf("healthy", "degraded", "unhealthy"),
			"reasons":     list(text),
			"labels":      dictionary(anyText),
			"workspaces":  count,
			"allocatable": amount,
			"usage":       nullable(amount),
		}),
		Metering: usageOf(
			map[string]check{"namespace": text, "workspace": text, "storage_bytes": nullable(count), "pod_seconds": count},
			map[string]check{"node": text, "storage_bytes?": nullable(count), "pod_seconds?": nullable(count)},
		),
		WorkspaceReport: object(map[string]check{
			"namespace":        text,
			"workspace":        text,
			"uid":              text,
			"phase":            oneOf("Pending", "Ready", "Degraded", "Sleeping", "Terminating"),
			"ready_replicas":   count,
			"desired_replicas": count,
			"conditions": list(object(map[string]check{
				"type": text, "status": oneOf("True", "False", "Unknown"), "reason": text,
			})),
			"observed_generation":        count,
			"restart_required_consumed?": positive, // the cursor of the restart
		}),
	}
}

// usageOf is the record of a workspace or, when it names one, of a node.
func usageOf(workspace, node map[string]check) check {
	for _, fields := range []map[string]check{workspace, node} {
		fields["idempotency_key"] = text
		fields["slot"] = instant
		fields["uid"] = text
		fields["cpu_millicore_seconds"] = nullable(count)
		fields["memory_byte_seconds"] = nullable(count)
	}
	ofWorkspace, ofNode := object(workspace), object(node)
	return func(path string, value any) error {
		if got, ok := value.(map[string]any); ok && got["node"] != nil {
			return ofNode(path, value)
		}
		return ofWorkspace(path, value)
	}
}
