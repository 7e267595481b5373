package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Ports are taken from below the kernel's ephemeral range (32768 and up) and
// the NodePort range (30000 and up), so that a stopped component finds its port
// free again.
const (
	firstPort = 20000
	lastPort  = 29999
)

// portNames are the listeners of one instance.
var portNames = []string{"etcd", "etcd-peer", "kube-apiserver", "kwok"}

// assignPorts gives the instance its ports, once: kubeconfigs in use keep
// working across restarts. Only while nothing runs may a port be replaced, when
// another program has taken it.
func (c *instance) assignPorts(ctx context.Context, running bool) error {
	if c.Ports != nil && (running || allFree(c.Ports)) {
		return nil
	}
	root, err := cacheRoot()
	if err != nil {
		return err
	}
	// The lock covers choosing and recording, so two instances that come up at
	// the same moment choose different ports before either has bound any.
	unlock, err := lockDir(ctx, root, nil)
	if err != nil {
		return err
	}
	defer unlock()

	registry := portRegistry{path: filepath.Join(root, "ports.json")}
	if err := registry.read(); err != nil {
		return err
	}
	ports, err := choosePorts(c.Ports, registry.takenByOthers(c.data))
	if err != nil {
		return err
	}
	c.Ports = ports
	if err := c.save(); err != nil {
		return err
	}
	registry.instances[c.data] = ports
	return registry.write()
}

// choosePorts keeps those of old that are free and picks the rest.
func choosePorts(old map[string]int, taken map[int]bool) (map[string]int, error) {
	ports := map[string]int{}
	for _, name := range portNames {
		if p, ok := old[name]; ok && !taken[p] && portFree(p) {
			ports[name] = p
			taken[p] = true
		}
	}
	for _, name := range portNames {
		for tries := 0; ports[name] == 0; tries++ {
			if tries == 1000 {
				return nil, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
			}
			p := firstPort + rand.IntN(lastPort-firstPort+1)
			if !taken[p] && portFree(p) {
				ports[name] = p
				taken[p] = true
			}
		}
	}
	return ports, nil
}

func allFree(ports map[string]int) bool {
	for _, name := range portNames {
		if p, ok := ports[name]; !ok || !portFree(p) {
			return false
		}
	}
	return true
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// portRegistry knows the ports of all instances, running or not.
type portRegistry struct {
	path      string
	instances map[string]map[string]int // by data directory
}

func (r *portRegistry) read() error {
	r.instances = map[string]map[string]int{}
	content, err := os.ReadFile(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(content, &r.instances)
}

// takenByOthers also forgets the instances which are gone.
func (r *portRegistry) takenByOthers(data string) map[int]bool {
	taken := map[int]bool{}
	for dir, ports := range r.instances {
		if _, err := os.Stat(filepath.Join(dir, stateFile)); err != nil {
			delete(r.instances, dir)
			continue
		}
		if dir == data {
			continue
		}
		for _, p := range ports {
			taken[p] = true
		}
	}
	return taken
}

func (r *portRegistry) write() error {
	content, err := json.Marshal(r.instances)
	if err != nil {
		return err
	}
	return writeFile(r.path, content, 0o600)
}
