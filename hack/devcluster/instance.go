package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// An instance is one cluster: a name and the directory with all its files.
type instance struct {
	name string
	data string // certificates, etcd's files, logs, pids
	bin  string // where the programs are
	state

	client *apiClient // made on first use
}

const stateFile = "state.json"

// state is what has to survive between two calls of devcluster.
type state struct {
	Ports   map[string]int `json:"ports"`
	Options options        `json:"options"`
}

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// openInstance finds the directories of an instance and reads its state, which
// is empty for one that was never up.
func openInstance(name string) (*instance, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("invalid name %q: lower-case letters, digits and dashes, at most 40", name)
	}
	base, err := dataRoot()
	if err != nil {
		return nil, err
	}
	bin, err := binDir()
	if err != nil {
		return nil, err
	}
	c := &instance{name: name, data: filepath.Join(base, name), bin: bin}
	return c, c.load()
}

// dataRoot holds one directory per instance. In /tmp it must be ours alone: the
// files in it make whoever can write them an administrator of the cluster.
func dataRoot() (string, error) {
	if dir := os.Getenv("DEVCLUSTER_DATA"); dir != "" {
		return filepath.Abs(dir)
	}
	dir := filepath.Join(os.TempDir(), "formspec-devcluster-"+strconv.Itoa(os.Getuid()))
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not a directory that only you can write; remove it or set DEVCLUSTER_DATA", dir)
	}
	return dir, nil
}

func (c *instance) path(elem ...string) string {
	return filepath.Join(append([]string{c.data}, elem...)...)
}

func (c *instance) kubeconfig() string { return c.path("kubeconfig") }

func (c *instance) logFile(component string) string { return c.path("log", component+".log") }

func (c *instance) load() error {
	content, err := os.ReadFile(c.path(stateFile))
	if errors.Is(err, os.ErrNotExist) {
		c.state = state{}
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(content, &c.state)
}

func (c *instance) save() error {
	content, err := json.MarshalIndent(c.state, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(c.path(stateFile), append(content, '\n'), 0o600)
}

// exists tells whether the instance has been up, or tried to, since its last
// "down --wipe".
func (c *instance) exists() bool { return c.Ports != nil }

// lock keeps two commands from changing one instance at the same time. The
// state is read again, since the other command may have changed it.
func (c *instance) lock(ctx context.Context, log *progress) (unlock func(), err error) {
	unlock, err = lockDir(ctx, c.data, func() { log.line("waiting for another command on instance %s …", c.name) })
	if err != nil {
		return nil, err
	}
	if err := c.load(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}
