// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// configDir is where the Workspace's ConfigMap is mounted (contract, section 2).
	configDir = "/etc/formspec"
	// handlerArgument makes this program what the real image would have got from its artifact.
	handlerArgument = "handler"
)

// binary is the executable in the data folder.
type binary struct {
	path string
	// atStart is what it said when it was installed.
	atStart handlerOutput
}

// handlerOutput is what the executable prints.
type handlerOutput struct {
	Executable string            `json:"executable"` // its own path
	UID        int               `json:"uid"`
	Config     map[string]string `json:"config"` // the files in /etc/formspec
}

// install writes the executable into the data folder, in place of one that is there already, and runs it once.
func install(ctx context.Context, dataDir string) (*binary, error) {
	b := &binary{path: filepath.Join(dataDir, "handler")}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := copyExecutable(self, b.path); err != nil {
		return nil, fmt.Errorf("write an executable into the data folder: %w", err)
	}
	b.atStart, err = b.run(ctx)
	return b, err
}

// copyExecutable replaces the target at once, since a program that runs cannot be written to.
func copyExecutable(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.CreateTemp(filepath.Dir(to), ".handler-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(target.Name()))
		}
	}()
	_, err = io.Copy(target, source)
	if err := errors.Join(err, target.Chmod(0o755), target.Close()); err != nil {
		return err
	}
	return os.Rename(target.Name(), to)
}

// run asks the executable for its output.
func (b *binary) run(ctx context.Context) (handlerOutput, error) {
	var output handlerOutput
	cmd := exec.CommandContext(ctx, b.path, handlerArgument) //nolint:gosec // G702: it runs what it wrote itself
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return output, fmt.Errorf("run the executable in the data folder: %w %s", err, stderr.String())
	}
	return output, json.Unmarshal(out, &output)
}

// printConfig is all that the executable does.
func printConfig(w io.Writer, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := readConfig(dir)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(handlerOutput{Executable: self, UID: os.Getuid(), Config: config})
}

// readConfig returns a file's content by its name. There are none where no ConfigMap is mounted.
func readConfig(dir string) (map[string]string, error) {
	config := map[string]string{}
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return config, nil
	}
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), "..") { // how the kubelet replaces all files at once
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		config[file.Name()] = string(content)
	}
	return config, nil
}
