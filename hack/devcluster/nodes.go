package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Nodes with this annotation are simulated by kwok.
const (
	simulatedAnnotation = "kwok.x-k8s.io/node"
	simulatedValue      = "fake"
)

// nodeSpec describes a group of like nodes.
type nodeSpec struct {
	count       int
	zones       int
	unlabelled  bool // no formspec.dev labels at all
	environment string
	region      string
	tier        string
	capacity    string
	labels      map[string]string // added last
	cpu         string
	memory      string
	pods        string
}

func defaultNodeSpec() nodeSpec {
	return nodeSpec{
		count: 1, zones: 3,
		environment: "prod", region: "jakarta", tier: "enterprise", capacity: "high",
		cpu: "64", memory: "256Gi", pods: "1000",
	}
}

// prefix names the group, so that nodes of different groups never share a name.
func (s nodeSpec) prefix() string {
	if s.unlabelled {
		return "sim-unlabelled-"
	}
	return "sim-" + strings.Join([]string{s.environment, s.region, s.tier, s.capacity}, "-") + "-"
}

// formspecLabels are the labels that the operator reads.
func (s nodeSpec) formspecLabels() map[string]string {
	if s.unlabelled {
		return nil
	}
	return map[string]string{
		"formspec.dev/environment": s.environment,
		"formspec.dev/region":      s.region,
		"formspec.dev/tier":        s.tier,
		"formspec.dev/capacity":    s.capacity,
	}
}

// node is as much of a Node as is needed here.
type node struct {
	APIVersion string       `json:"apiVersion,omitempty"`
	Kind       string       `json:"kind,omitempty"`
	Metadata   nodeMetadata `json:"metadata"`
	Status     nodeStatus   `json:"status"`
}

type nodeMetadata struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
}

type nodeStatus struct {
	Allocatable map[string]string `json:"allocatable,omitempty"`
	Capacity    map[string]string `json:"capacity,omitempty"`
	Conditions  []nodeCondition   `json:"conditions,omitempty"`
	NodeInfo    map[string]any    `json:"nodeInfo,omitempty"`
}

type nodeCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

func (n node) ready() bool {
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// node renders the i-th node of the group, counted from 1.
func (s nodeSpec) node(i int) node {
	name := s.prefix() + strconv.Itoa(i)
	labels := map[string]string{
		"kubernetes.io/hostname":        name,
		"kubernetes.io/os":              "linux",
		"kubernetes.io/arch":            "amd64",
		"topology.kubernetes.io/region": s.region,
		"topology.kubernetes.io/zone":   s.region + "-" + strconv.Itoa((i-1)%max(1, s.zones)+1),
		"type":                          "kwok",
	}
	maps.Copy(labels, s.formspecLabels())
	maps.Copy(labels, s.labels)
	resources := map[string]string{"cpu": s.cpu, "memory": s.memory, "pods": s.pods}
	return node{
		APIVersion: "v1",
		Kind:       "Node",
		Metadata: nodeMetadata{
			Name:        name,
			Annotations: map[string]string{simulatedAnnotation: simulatedValue},
			Labels:      labels,
		},
		Status: nodeStatus{
			Allocatable: resources,
			Capacity:    resources,
			NodeInfo:    map[string]any{"kubeletVersion": kubernetesVersion},
		},
	}
}

// listNodes returns all nodes, simulated or not.
func (a *apiClient) listNodes(ctx context.Context) ([]node, error) {
	var list struct{ Items []node }
	err := a.do(ctx, http.MethodGet, "/api/v1/nodes", nil, &list)
	return list.Items, err
}

// ensureNodes creates those of the group's nodes 1 to count that are missing.
func (a *apiClient) ensureNodes(ctx context.Context, s nodeSpec) error {
	for i := 1; i <= s.count; i++ {
		if err := a.createNode(ctx, s.node(i)); err != nil {
			return err
		}
	}
	return nil
}

// addNodes creates count more nodes of the group and returns their names.
func (a *apiClient) addNodes(ctx context.Context, s nodeSpec) ([]string, error) {
	nodes, err := a.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	last := 0
	for _, n := range nodes {
		number, found := strings.CutPrefix(n.Metadata.Name, s.prefix())
		if i, err := strconv.Atoi(number); found && err == nil {
			last = max(last, i)
		}
	}
	var names []string
	for i := last + 1; i <= last+s.count; i++ {
		n := s.node(i)
		if err := a.createNode(ctx, n); err != nil {
			return names, err
		}
		names = append(names, n.Metadata.Name)
	}
	return names, nil
}

func (a *apiClient) createNode(ctx context.Context, n node) error {
	err := a.do(ctx, http.MethodPost, "/api/v1/nodes", n, nil)
	if failed, ok := errors.AsType[*apiError](err); ok && failed.code == http.StatusConflict {
		return nil // it exists
	}
	if err != nil {
		return fmt.Errorf("create node %s: %w", n.Metadata.Name, err)
	}
	return nil
}

// waitNodesReady waits until all nodes are Ready and returns their number.
func (a *apiClient) waitNodesReady(ctx context.Context) (int, error) {
	for {
		nodes, err := a.listNodes(ctx)
		unready := 0
		for _, n := range nodes {
			if !n.ready() {
				unready++
			}
		}
		if err == nil && unready == 0 {
			return len(nodes), nil
		}
		if ctxErr := sleep(ctx, 100*time.Millisecond); ctxErr != nil {
			return 0, fmt.Errorf("%d of %d nodes are not Ready: %w", unready, len(nodes), errors.Join(err, ctxErr))
		}
	}
}

// releaseNodes deletes the leases of all simulated nodes. A lease names the kwok
// process that took it, and a new process would leave the nodes alone, and their
// pods Pending, until it has expired.
func releaseNodes(ctx context.Context, c *instance) error {
	if c.pid("kube-apiserver") == 0 {
		return nil // kwok may start during an outage, too
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	nodes, err := api.listNodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Metadata.Annotations[simulatedAnnotation] != simulatedValue {
			continue
		}
		err := api.do(ctx, http.MethodDelete, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+n.Metadata.Name, nil, nil)
		if failed, ok := errors.AsType[*apiError](err); err != nil && (!ok || failed.code != http.StatusNotFound) {
			return fmt.Errorf("release node %s: %w", n.Metadata.Name, err)
		}
	}
	return nil
}
