package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// realNode is this machine as a node of the cluster, with real containers.
type realNode struct {
	Name    string            `json:"name"`
	Address string            `json:"address"`
	Labels  map[string]string `json:"labels"`
}

// nodePackages are Debian's packages with what a node needs, by a file of each
// that tells whether it is there.
var nodePackages = []struct{ file, name string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"nft", "nftables"},
	{"ip", "iproute2"},
	{cniDir + "/bridge", "containernetworking-plugins"},
}

const cniDir = "/usr/lib/cni"

// joinNode makes this machine a node of a running instance.
func (c *instance) joinNode(ctx context.Context, node realNode, timeout time.Duration, log *progress) error {
	if os.Getuid() != 0 {
		return errors.New("a real node needs root")
	}
	if err := installPackages(ctx, log); err != nil {
		return err
	}
	if err := buildPrograms(ctx, c.bin, []string{"kubelet", "kube-proxy", "pause"}, log); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	unlock, err := c.lock(ctx, log)
	if err != nil {
		return err
	}
	defer unlock()
	if c.pid("kube-apiserver") == 0 {
		return fmt.Errorf("kube-apiserver of instance %s must be running", c.name)
	}
	if c.pid("kubelet") == 0 && getOK(ctx, http.DefaultClient, kubeletHealth) == nil {
		return errors.New("this machine is the node of another instance already: a kubelet answers at " + kubeletHealth)
	}
	if node.Address == "" {
		if node.Address, err = nodeAddress(ctx); err != nil {
			return err
		}
	}
	if err := c.exposeAPIServer(ctx, node, log); err != nil {
		return err
	}
	total := log.timer()
	var list []component
	for _, k := range c.selected() {
		if k.node {
			list = append(list, k)
		}
	}
	for _, wave := range waves(list) {
		if err := c.startWave(ctx, wave, log); err != nil {
			return err
		}
	}
	api, err := c.api()
	if err != nil {
		return err
	}
	if err := api.waitNodeReady(ctx, node.Name); err != nil {
		return fmt.Errorf("%w; see %s", err, c.logFile("kubelet"))
	}
	total("node %s is Ready", node.Name)
	return nil
}

// exposeAPIServer records the node and restarts the API server so that it can
// be reached from pods, which loopback cannot.
func (c *instance) exposeAPIServer(ctx context.Context, node realNode, log *progress) error {
	if old := c.Options.RealNode; old != nil {
		if old.Name != node.Name || old.Address != node.Address {
			return fmt.Errorf("instance %s has the real node %s at %s already", c.name, old.Name, old.Address)
		}
		return c.prepare()
	}
	c.Options.RealNode = &node
	for _, k := range components {
		if k.node {
			c.Options.Components = append(c.Options.Components, k.name)
		}
	}
	if err := c.save(); err != nil {
		return err
	}
	// The new address has to be in the certificate.
	if err := os.Remove(c.path("pki", "kube-apiserver.crt")); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.stopComponents(ctx, true, "kube-apiserver"); err != nil {
		return err
	}
	k, err := findComponent("kube-apiserver")
	if err != nil {
		return err
	}
	return c.startWave(ctx, []component{k}, log)
}

func installPackages(ctx context.Context, log *progress) error {
	var missing []string
	for _, p := range nodePackages {
		if _, err := exec.LookPath(p.file); err != nil && !slices.Contains(missing, p.name) {
			missing = append(missing, p.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("these are missing, and there is no apt-get to install them: %s", strings.Join(missing, ", "))
	}
	log.line("installing %s …", strings.Join(missing, ", "))
	done := log.timer()
	if err := run(ctx, "apt-get", "update", "-qq"); err != nil {
		return err
	}
	args := append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)
	if err := run(ctx, "apt-get", args...); err != nil {
		return err
	}
	done("installed")
	return nil
}

// run runs a system program and returns what it said if it failed.
func run(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, name, args...)
	return err
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

// dummyLink gives a machine without any network an address for its node.
const (
	dummyLink    = "devcluster0"
	dummyAddress = "10.200.0.1"
)

// nodeAddress returns an address of this machine other than loopback, which a
// node may not have.
func nodeAddress(ctx context.Context) (string, error) {
	links, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, link := range links {
		if link.Flags&net.FlagUp == 0 || slices.ContainsFunc([]string{"cni", "docker", "veth", "br-"}, func(prefix string) bool {
			return strings.HasPrefix(link.Name, prefix)
		}) {
			continue
		}
		addrs, err := link.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
				return ip.IP.String(), nil
			}
		}
	}
	for _, args := range [][]string{
		{"link", "add", dummyLink, "type", "dummy"},
		{"addr", "add", dummyAddress + "/24", "dev", dummyLink},
		{"link", "set", dummyLink, "up"},
	} {
		if err := run(ctx, "ip", args...); err != nil {
			return "", err
		}
	}
	return dummyAddress, nil
}

// containerdProgram is the only program that is not built here.
func containerdProgram(*instance) string {
	path, err := exec.LookPath("containerd")
	if err != nil {
		return "/usr/bin/containerd"
	}
	return path
}

func (c *instance) containerdSocket() string {
	return filepath.Join(c.data, "containerd", "containerd.sock")
}

// ctr runs containerd's own client in the namespace of the kubelet.
func (c *instance) ctr(ctx context.Context, args ...string) (string, error) {
	return output(ctx, "ctr", append([]string{"--address", c.containerdSocket(), "--namespace", "k8s.io"}, args...)...)
}
