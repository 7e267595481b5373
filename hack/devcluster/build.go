package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// stagesFile tells kwok how nodes and pods move from one state to the next;
// without it kwok does nothing. It is put together from files that ship inside
// the kwok module.
const stagesFile = "kwok-stages.yaml"

var stages = []string{
	"node/fast/node-initialize",
	"node/heartbeat-with-lease/node-heartbeat-with-lease",
	"pod/fast/pod-ready",
	"pod/fast/pod-complete",
	"pod/fast/pod-delete",
}

// buildPrograms builds those of names that bin does not hold yet. Concurrent
// calls for one directory wait for each other instead of compiling twice.
func buildPrograms(ctx context.Context, bin string, names []string, log *progress) error {
	if len(missingPrograms(bin, names)) == 0 {
		return nil // the common case needs neither the lock nor the sources
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	unlock, err := lockDir(ctx, bin, func() { log.line("waiting for another build in %s …", bin) })
	if err != nil {
		return err
	}
	defer unlock()

	missing := missingPrograms(bin, names) // again: the other build may have made them
	if len(missing) == 0 {
		return nil
	}
	source, err := sourceDir()
	if err != nil {
		return err
	}
	for i, p := range missing {
		log.line("building %s … %d of %d (first time only, all of them about 10 min on two cores)", p.name, i+1, len(missing))
		done := log.timer()
		if err := p.build(ctx, source, bin); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
		done("built %s", p.name)
	}
	return nil
}

func missingPrograms(bin string, names []string) []program {
	var missing []program
	for _, p := range programs {
		if slices.Contains(names, p.name) && !p.complete(bin) {
			missing = append(missing, p)
		}
	}
	return missing
}

// complete is built, plus the data file that kwok cannot work without.
func (p program) complete(bin string) bool {
	if !p.built(bin) {
		return false
	}
	if p.name != "kwok" {
		return true
	}
	_, err := os.Stat(filepath.Join(bin, stagesFile))
	return err == nil
}

func (p program) build(ctx context.Context, source, bin string) error {
	dir := filepath.Join(source, p.source)
	if !p.built(bin) {
		// A temporary name, because an interrupted link leaves half a file.
		tmp := filepath.Join(bin, "."+p.name+".tmp")
		defer os.Remove(tmp)
		if _, err := runGo(ctx, dir, "build", "-trimpath", "-ldflags", "-s -w "+p.ldflags, "-o", tmp, p.pkg); err != nil {
			return err
		}
		if err := os.Rename(tmp, filepath.Join(bin, p.name)); err != nil {
			return err
		}
	}
	if p.name == "kwok" {
		return writeStages(ctx, dir, p.module, filepath.Join(bin, stagesFile))
	}
	return nil
}

func writeStages(ctx context.Context, dir, module, path string) error {
	moduleDir, err := runGo(ctx, dir, "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	var all bytes.Buffer
	for _, stage := range stages {
		content, err := os.ReadFile(filepath.Join(moduleDir, "kustomize", "stage", stage+".yaml"))
		if err != nil {
			return err
		}
		all.WriteString("---\n")
		all.Write(content)
	}
	return writeFile(path, all.Bytes(), 0o644)
}

// runGo runs the go command inside one of the nested modules.
func runGo(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// A workspace or flags meant for the operator must not reach these modules.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", args[0], dir, cmp.Or(ctx.Err(), err), stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// sourceDir finds hack/devcluster, which holds the nested modules, from where
// this program lies (bin/ of a checkout) or else from the working directory.
func sourceDir() (string, error) {
	if dir := os.Getenv("DEVCLUSTER_SOURCE"); dir != "" {
		return filepath.Abs(dir)
	}
	var starts []string
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	for _, dir := range starts {
		for {
			candidate := filepath.Join(dir, "hack", "devcluster")
			if _, err := os.Stat(filepath.Join(candidate, "components", "go.mod")); err == nil {
				return candidate, nil
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", errors.New("cannot find hack/devcluster: run inside a checkout or set DEVCLUSTER_SOURCE")
}
