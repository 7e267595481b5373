// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

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

// cluster is one instance of devcluster.
type cluster struct {
	program    string // devcluster
	name       string
	kubeconfig string // the administrator's
	auditLog   string
	bin        string // with kubectl
}

// startCluster brings up a control plane that goes with this process.
func startCluster(ctx context.Context, program, name string) (*cluster, error) {
	c := &cluster{program: program, name: name}
	bin, err := c.devcluster(ctx, "build")
	if err != nil {
		return nil, err
	}
	c.bin = strings.TrimSpace(bin)
	kubeconfig, err := c.devcluster(ctx, "up", "--audit", "--nodes", "4", "--nodes-unlabelled", "1",
		"--apiserver-arg=--audit-log-maxsize=10000", // in megabytes: it must not rotate
		"--die-with", strconv.Itoa(os.Getpid()))
	if err != nil {
		return nil, err
	}
	c.kubeconfig = strings.TrimSpace(kubeconfig)
	c.auditLog = filepath.Join(filepath.Dir(c.kubeconfig), "audit.log")
	return c, nil
}

// devcluster returns what a subcommand printed.
func (c *cluster) devcluster(ctx context.Context, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, c.program, append(args, "--name", c.name)...))
}

// kubectl returns what kubectl printed, as the administrator.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectlWith(ctx, "", args...)
}

// kubectlWith gives kubectl its standard input too.
func (c *cluster) kubectlWith(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), append([]string{"--kubeconfig", c.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return output(cmd)
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
