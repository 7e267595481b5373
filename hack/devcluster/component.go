package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A component is one long-running process of a cluster.
type component struct {
	name  string
	needs []string // components that must be ready before it starts
	port  string   // the entry in the instance's ports that "status" shows
	node  bool     // part of a real node rather than of the control plane
	// program is the binary, if it is not the one of this name in the bin directory.
	program func(*instance) string
	// before, if set, runs just before the process starts.
	before func(context.Context, *instance) error
	args   func(*instance) []string
	// ready returns why the component is not usable yet. Without it a component
	// counts as ready once it has survived its first moments.
	ready func(context.Context, *instance) error
}

// components are all components in start order. Those whose needs are met start
// together.
var components = []component{
	{name: "etcd", port: "etcd", args: etcdArgs, ready: etcdReady},
	{name: "kube-apiserver", needs: []string{"etcd"}, port: "kube-apiserver", args: apiserverArgs, ready: apiserverReady},
	{name: "kube-controller-manager", needs: []string{"kube-apiserver"}, args: controllerManagerArgs, ready: controllerManagerReady},
	{name: "kube-scheduler", needs: []string{"kube-apiserver"}, args: schedulerArgs},
	{name: "kwok", needs: []string{"kube-apiserver"}, port: "kwok", before: releaseNodes, args: kwokArgs, ready: kwokReady},
	{name: "containerd", node: true, program: containerdProgram, args: containerdArgs, ready: containerdReady},
	{
		name: "kubelet", node: true, needs: []string{"containerd", "kube-apiserver"}, before: prepareKubelet,
		args: kubeletArgs, ready: kubeletReady,
	},
	{name: "kube-proxy", node: true, needs: []string{"kubelet"}, args: kubeProxyArgs, ready: kubeProxyReady},
}

// componentNames are the components of a control plane.
func componentNames() []string {
	var names []string
	for _, k := range components {
		if !k.node {
			names = append(names, k.name)
		}
	}
	return names
}

func findComponent(name string) (component, error) {
	i := slices.IndexFunc(components, func(k component) bool { return k.name == name })
	if i < 0 {
		return component{}, fmt.Errorf("unknown component %q; known are %s", name, strings.Join(componentNames(), ", "))
	}
	return components[i], nil
}

// selected are the instance's components in start order.
func (c *instance) selected() []component {
	var list []component
	for _, k := range components {
		if slices.Contains(c.Options.Components, k.name) {
			list = append(list, k)
		}
	}
	return list
}

// waves groups components so that each one's needs lie in an earlier group.
// Needs which are not in the list at all do not count.
func waves(list []component) [][]component {
	var groups [][]component
	level := map[string]int{}
	for _, k := range list {
		n := 0
		for _, need := range k.needs {
			if l, ok := level[need]; ok {
				n = max(n, l+1)
			}
		}
		level[k.name] = n
		if n == len(groups) {
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], k)
	}
	return groups
}

// start starts a component unless it runs.
func (c *instance) start(ctx context.Context, k component) (alreadyRunning bool, err error) {
	if c.pid(k.name) != 0 {
		return true, nil
	}
	if k.before != nil {
		if err := k.before(ctx, c); err != nil {
			return false, err
		}
	}
	program := filepath.Join(c.bin, k.name)
	if k.program != nil {
		program = k.program(c)
	}
	return false, c.spawn(k.name, program, k.args(c))
}

// waitReady waits until a component is ready, or tells why it will not be.
func (c *instance) waitReady(ctx context.Context, k component) error {
	begin := time.Now()
	for {
		if c.pid(k.name) == 0 {
			return fmt.Errorf("%s has ended; the end of %s:\n%s", k.name, c.logFile(k.name), tail(c.logFile(k.name), 12))
		}
		err := errors.New("still starting")
		if k.ready != nil {
			err = k.ready(ctx, c)
		} else if time.Since(begin) > 300*time.Millisecond {
			err = nil
		}
		if err == nil {
			return nil
		}
		if ctxErr := sleep(ctx, 50*time.Millisecond); ctxErr != nil {
			return fmt.Errorf("%s is not ready: %w (%w); see %s", k.name, err, ctxErr, c.logFile(k.name))
		}
	}
}

// tail returns the last lines of a file, for error messages.
func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
