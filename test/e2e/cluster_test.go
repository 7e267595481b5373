// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// cluster is one instance of devcluster with a real node.
type cluster struct {
	program    string // devcluster
	name       string
	kubeconfig string // the administrator's
	bin        string // with kubectl
	node       string // the real node's name
}

// The values of formspec.dev/environment that tell the nodes apart.
const (
	realEnvironment      = "dev"
	simulatedEnvironment = "prod"
)

// startCluster brings up a control plane and a real node that go with this process. It returns a cluster even when it fails, for wipe.
func startCluster(ctx context.Context, program string) (*cluster, error) {
	c := &cluster{program: program, name: "e2e-" + strconv.Itoa(os.Getpid())}
	if _, err := c.devcluster(ctx, "packages"); err != nil {
		return c, unavailableError{fmt.Errorf("this machine cannot be a node: %w", err)}
	}
	bin, err := c.devcluster(ctx, "build")
	if err != nil {
		return c, err
	}
	c.bin = strings.TrimSpace(bin)
	kubeconfig, err := c.devcluster(ctx, "up", "--nodes", "2", "--die-with", strconv.Itoa(os.Getpid()))
	if err != nil {
		return c, err
	}
	c.kubeconfig = strings.TrimSpace(kubeconfig)
	node, err := c.devcluster(ctx, "node", "--environment", realEnvironment, "--tier", "shared", "--capacity", "low")
	c.node = strings.TrimSpace(node)
	return c, err
}

// devcluster returns what a subcommand printed.
func (c *cluster) devcluster(ctx context.Context, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, c.program, append(args, "--name", c.name)...))
}

// kubectl returns what kubectl printed, as the administrator.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), append([]string{"--kubeconfig", c.kubeconfig}, args...)...))
}

func (c *cluster) wipe(ctx context.Context) error {
	_, err := c.devcluster(ctx, "down", "--wipe")
	return err
}

func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return string(out), nil
}
