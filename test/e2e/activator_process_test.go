// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// process is an activator's, as this machine sees it.
type process struct{ dir string }

// activatorProcesses are those of the two activator pods.
func (s *scenario) activatorProcesses() []process {
	s.Helper()
	var found []process
	s.eventually("two activators run", func() error {
		found = nil
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			return err
		}
		for _, file := range files {
			if line, err := os.ReadFile(file); err == nil && bytes.HasPrefix(line, []byte("/formspec-operator\x00activator\x00")) {
				found = append(found, process{filepath.Dir(file)})
			}
		}
		if len(found) != 2 {
			return fmt.Errorf("there are %d", len(found))
		}
		return nil
	})
	return found
}

// resetPeak makes the peak begin now. Source: proc(5), clear_refs.
func (p process) resetPeak() error {
	return os.WriteFile(filepath.Join(p.dir, "clear_refs"), []byte("5"), 0)
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peak is the most memory in bytes that was resident at a time.
func (p process) peak() (int64, error) {
	status, err := os.ReadFile(filepath.Join(p.dir, "status"))
	if err != nil {
		return 0, err
	}
	found := highWater.FindSubmatch(status)
	if found == nil {
		return 0, errors.New("there is no VmHWM")
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	return kilobytes << 10, err
}

// peaks are those of all activators.
func (s *scenario) peaks(all []process) []int64 {
	s.Helper()
	var peaks []int64
	for _, p := range all {
		peak, err := p.peak()
		s.must("read an activator's memory", err)
		peaks = append(peaks, peak)
	}
	return peaks
}

// resetPeaks returns what is resident now, where the peaks begin.
func (s *scenario) resetPeaks(all []process) []int64 {
	s.Helper()
	for _, p := range all {
		s.must("reset the peak of an activator's memory", p.resetPeak())
	}
	return s.peaks(all)
}

// activatorLimit is the memory that an activator may have, as manifests/ say.
func (s *scenario) activatorLimit() *resource.Quantity {
	s.Helper()
	pod := s.activators()[0]
	limit := pod.Spec.Containers[0].Resources.Limits.Memory()
	if limit.IsZero() {
		s.Fatalf("%s in %s has no memory limit", pod.Name, v1alpha1.ActivatorNamespace)
	}
	return limit
}

// unharmed fails if an activator pod of before has restarted.
func (s *scenario) unharmed() {
	s.Helper()
	for _, pod := range s.activators() {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				s.Errorf("activator %s has restarted %d times, at last because of %+v", pod.Name, c.RestartCount, c.LastTerminationState.Terminated)
			}
		}
	}
}
