package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// realPodRange is apart from the simulated pods' addresses.
const (
	realPodRange = "10.245.0.0/16"
	pauseImage   = "devcluster.local/pause:1"
)

//go:embed node
var nodeFiles embed.FS

// writeNodeConfigs writes the files in node/ with the instance's values.
func (c *instance) writeNodeConfigs() error {
	values := struct {
		Data, CNIDir, Socket, PauseImage, PodRange, Node, CA, ProxyKubeconfig string
	}{
		c.data, cniDir, c.containerdSocket(), pauseImage, realPodRange, c.Options.RealNode.Name,
		c.path("pki", "ca.crt"), c.path("pki", "kube-proxy.kubeconfig"),
	}
	templates, err := template.ParseFS(nodeFiles, "node/*")
	if err != nil {
		return err
	}
	for _, t := range templates.Templates() {
		var content bytes.Buffer
		if err := t.Execute(&content, values); err != nil {
			return err
		}
		dir := c.path("node")
		if filepath.Ext(t.Name()) == ".conflist" {
			dir = c.path("cni", "net.d") // where nothing else may lie
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, t.Name()), content.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func containerdArgs(c *instance) []string {
	return []string{"--config", c.path("node", "containerd.toml")}
}

func containerdReady(ctx context.Context, c *instance) error {
	_, err := c.ctr(ctx, "version")
	return err
}

// natTable lets pods reach beyond this machine. The bridge plugin could do that
// too, but with rules for each pod, which stay when a pod ends in disorder.
const natTable = "devcluster"

// prepareKubelet gives containerd the one image that every pod needs, since
// there may be no registry to pull it from, and sets up routing.
func prepareKubelet(ctx context.Context, c *instance) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	for _, command := range []string{
		"add table ip " + natTable,
		"flush table ip " + natTable,
		"add chain ip " + natTable + " postrouting { type nat hook postrouting priority srcnat; }",
		"add rule ip " + natTable + " postrouting ip saddr " + realPodRange + " ip daddr != " + realPodRange + " masquerade",
	} {
		if err := run(ctx, "nft", command); err != nil {
			return err
		}
	}
	return c.importImage(ctx, pauseImage, filepath.Join(c.bin, "pause"))
}

func kubeletArgs(c *instance) []string {
	node := c.Options.RealNode
	var labels []string
	for key, value := range node.Labels {
		labels = append(labels, key+"="+value)
	}
	slices.Sort(labels)
	return []string{
		"--config=" + c.path("node", "kubelet.yaml"),
		"--kubeconfig=" + c.path("pki", "kubelet.kubeconfig"),
		"--cert-dir=" + c.path("kubelet-pki"),
		"--root-dir=" + c.path("kubelet"),
		"--hostname-override=" + node.Name,
		"--node-ip=" + node.Address,
		"--node-labels=" + strings.Join(labels, ","),
	}
}

// kubeletHealth is the same for every instance, so there is one node a machine.
const kubeletHealth = "http://127.0.0.1:10248/healthz"

// kubeletReady waits for the Node too: kube-proxy ends itself when the node's
// address appears only after its start.
func kubeletReady(ctx context.Context, c *instance) error {
	if err := getOK(ctx, http.DefaultClient, kubeletHealth); err != nil {
		return err
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	return api.do(ctx, http.MethodGet, "/api/v1/nodes/"+c.Options.RealNode.Name, nil, nil)
}

func kubeProxyArgs(c *instance) []string {
	return []string{"--config=" + c.path("node", "kube-proxy.yaml")}
}

func kubeProxyReady(ctx context.Context, _ *instance) error {
	return getOK(ctx, http.DefaultClient, "http://127.0.0.1:10256/healthz")
}

// waitNodeReady waits for one node.
func (a *apiClient) waitNodeReady(ctx context.Context, name string) error {
	for {
		var n node
		err := a.do(ctx, http.MethodGet, "/api/v1/nodes/"+name, nil, &n)
		if err == nil && n.ready() {
			return nil
		}
		if ctxErr := sleep(ctx, pollInterval); ctxErr != nil {
			return fmt.Errorf("node %s is not Ready: %w", name, ctxErr)
		}
	}
}
