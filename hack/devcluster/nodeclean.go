package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// pollInterval is how often something slow is looked at.
const pollInterval = 100 * time.Millisecond

// drainNode lets the kubelet take down all pods of the real node in good order,
// with their networks and mounts. Whatever it does not manage is left to
// removeContainers and cleanNode.
func (c *instance) drainNode(ctx context.Context) {
	if c.pid("kubelet") == 0 || c.pid("kube-apiserver") == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	// First those who would put new pods in their place.
	if err := c.stopComponents(ctx, true, "kube-controller-manager", "kube-scheduler"); err != nil {
		return
	}
	api, err := c.api()
	if err != nil {
		return
	}
	query := "/api/v1/pods?fieldSelector=spec.nodeName%3D" + c.Options.RealNode.Name
	for asked := false; ; asked = true {
		// The kubelet deletes a Pod when nothing of it is left on the node.
		var pods struct {
			Items []struct {
				Metadata struct{ Namespace, Name string }
			}
		}
		if err := api.do(ctx, http.MethodGet, query, nil, &pods); err != nil || len(pods.Items) == 0 {
			return
		}
		for _, p := range pods.Items {
			if !asked {
				path := "/api/v1/namespaces/" + p.Metadata.Namespace + "/pods/" + p.Metadata.Name
				_ = api.do(ctx, http.MethodDelete, path+"?gracePeriodSeconds=1", nil, nil)
			}
		}
		if sleep(ctx, pollInterval) != nil {
			return
		}
	}
}

// removeContainers kills all containers and deletes their networks. They outlive
// containerd by design, so this must come before it ends, and after the kubelet,
// which would replace them.
func (c *instance) removeContainers(ctx context.Context) {
	if c.pid("containerd") == 0 {
		return
	}
	containers, err := c.ctr(ctx, "containers", "list", "--quiet")
	if err != nil {
		return
	}
	for id := range strings.FieldsSeq(containers) {
		// Each step may fail because a container has ended long ago.
		_, _ = c.ctr(ctx, "tasks", "kill", "--all", "--signal", "SIGKILL", id)
		_, _ = c.ctr(ctx, "tasks", "delete", "--force", id)
		info, err := c.ctr(ctx, "containers", "info", id)
		if err != nil {
			continue
		}
		for _, name := range podNetworks([]byte(info)) {
			_ = run(ctx, "ip", "netns", "delete", name)
		}
	}
}

// podNetworks returns the named network namespaces of a container, given what
// containerd knows about it.
func podNetworks(info []byte) []string {
	var container struct {
		Spec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	if err := json.Unmarshal(info, &container); err != nil {
		return nil
	}
	var names []string
	for _, n := range container.Spec.Linux.Namespaces {
		if name := filepath.Base(n.Path); n.Type == "network" && strings.HasPrefix(name, "cni-") {
			names = append(names, name)
		}
	}
	return names
}

// cleanNode removes what a node leaves outside the data directory, and the
// mounts inside, which must be gone before its files are deleted.
func (c *instance) cleanNode(ctx context.Context) error {
	node := c.Options.RealNode
	if node == nil {
		return nil
	}
	for _, args := range [][]string{
		{"ip", "link", "delete", "cni-devcluster"},
		{"nft", "delete", "table", "ip", natTable},
		{"nft", "delete", "table", "ip", "kube-proxy"},
		{"nft", "delete", "table", "ip6", "kube-proxy"},
	} {
		_ = run(ctx, args[0], args[1:]...) // each may not be there
	}
	if node.Address == dummyAddress {
		_ = run(ctx, "ip", "link", "delete", dummyLink)
	}
	// The kubelet links every container's log from here.
	links, _ := filepath.Glob("/var/log/containers/*.log")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, c.data+"/") {
			_ = os.Remove(link)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var inside []string
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], c.data+"/") {
			inside = append(inside, fields[1])
		}
	}
	slices.Sort(inside)
	for _, path := range slices.Backward(inside) { // the innermost first
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			return &os.PathError{Op: "unmount", Path: path, Err: err}
		}
	}
	return nil
}
