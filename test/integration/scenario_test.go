// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// patience is how long a test waits for what must happen. It is far more than an idle machine needs: what a test promises about time, it
// says itself.
const patience = 3 * time.Minute

// pollInterval is short, because the tests' requests are few and cheap.
const pollInterval = 100 * time.Millisecond

// scenario is one test with a namespace of its own, in which pods must be restricted.
type scenario struct {
	*testing.T
	*environment
	namespace string
	bursts    int // see burst
}

// long says that more objects and longer windows are asked for.
func long() bool { return os.Getenv("FORMSPEC_LONG") != "" }

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// given begins a scenario, or skips the test under -short.
func given(t *testing.T) *scenario {
	t.Helper()
	if shared == nil {
		t.Skip("integration tests need a control plane: run go test without -short")
	}
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	if len(name) > 40 {
		name = strings.Trim(name[:40], "-")
	}
	s := &scenario{T: t, environment: shared, namespace: name + "-" + rand.String(5)}
	s.createNamespace(s.namespace)
	t.Cleanup(s.end)
	return s
}

func (s *scenario) createNamespace(name string) {
	s.Helper()
	_, err := s.kube.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	s.must("create the namespace", err)
}

// end tells what was there if the test failed, and deletes the namespace in the background.
func (s *scenario) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.Failed() {
		for _, args := range [][]string{
			{"get", "workspaces,deployments,replicasets,pods,hpa,pdb,services,configmaps,secrets", "-n", s.namespace},
			{"get", "workspaces", "-n", s.namespace, "-o", `jsonpath={range .items[*]}{.metadata.name}{"\n"}{range .status.conditions[*]}  {.type}={.status} {.reason}: {.message}{"\n"}{end}{end}`},
		} {
			out, err := s.cluster.kubectl(ctx, args...)
			s.Logf("kubectl %s\n%s%v", strings.Join(args[:2], " "), out, err)
		}
		for _, p := range s.processes {
			if lines := p.grep(s.namespace, 60); lines != "" {
				s.Logf("log of operator %s about this namespace:\n%s", p.name, lines)
			}
		}
	}
	if err := s.kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
		s.Errorf("delete the namespace: %v", err)
	}
}

// must ends the test if something failed that has to work before anything can be tested.
func (s *scenario) must(what string, err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// eventually waits until check returns nil.
func (s *scenario) eventually(what string, check func() error) {
	s.Helper()
	s.within(patience, what, check)
}

// within is eventually with a promise about time.
func (s *scenario) within(limit time.Duration, what string, check func() error) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), pollInterval, limit, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		s.Fatalf("%s: not within %s: %v", what, limit, last)
	}
}

// lasts fails as soon as check returns an error before the time is over.
func (s *scenario) lasts(span time.Duration, what string, check func() error) {
	s.Helper()
	var failure error
	err := wait.PollUntilContextTimeout(s.Context(), pollInterval, span, true, func(context.Context) (bool, error) {
		failure = check()
		return false, failure
	})
	if failure != nil {
		s.Fatalf("%s: did not last for %s: %v", what, span, failure)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Fatalf("%s: %v", what, err)
	}
}

// kubectl runs a command in the scenario's namespace.
func (s *scenario) kubectl(args ...string) string {
	s.Helper()
	out, err := s.cluster.kubectl(s.Context(), append([]string{"-n", s.namespace}, args...)...)
	s.must("kubectl", err)
	return out
}

// now marks this moment in the audit log.
func (s *scenario) now() mark {
	s.Helper()
	m, err := s.audit.mark(s.Context())
	s.must("mark the audit log", err)
	return m
}

// sent returns what operators have sent since from, as far as it concerns the namespace, but watches. In no namespace are the requests
// about classes.
func (s *scenario) sent(from mark, which ...func(request) bool) []request {
	s.Helper()
	all, err := s.audit.between(s.Context(), from, s.now())
	s.must("read the audit log", err)
	return filter(all, append(which, func(r request) bool { return r.Object.Namespace == s.namespace })...)
}

func filter(requests []request, which ...func(request) bool) []request {
	var found []request
next:
	for _, r := range requests {
		for _, matches := range which {
			if !matches(r) {
				continue next
			}
		}
		found = append(found, r)
	}
	return found
}

// about selects the requests about objects of a resource, such as deployments or workspaces/status.
func about(resource string) func(request) bool {
	return func(r request) bool { return r.resource() == resource }
}

// named selects the requests about objects of a name.
func named(name string) func(request) bool {
	return func(r request) bool { return r.Object.Name == name }
}

func list(requests []request) string {
	var b strings.Builder
	for _, r := range requests {
		fmt.Fprintf(&b, "\n  %s", r)
	}
	return b.String()
}

// class creates a ClusterClass of the scenario, which goes with it.
func (s *scenario) class(change ...func(*v1alpha1.ClusterClass)) *v1alpha1.ClusterClass {
	s.Helper()
	class := &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{GenerateName: s.namespace + "-"}}
	for _, f := range change {
		f(class)
	}
	class, err := s.formspec.FormspecV1alpha1().ClusterClasses().Create(s.Context(), class, metav1.CreateOptions{})
	s.must("create the class", err)
	s.Cleanup(func() { s.deleteClass(class.Name) })
	return class
}

func (s *scenario) deleteClass(name string) {
	err := s.formspec.FormspecV1alpha1().ClusterClasses().Delete(context.Background(), name, metav1.DeleteOptions{})
	if err != nil {
		s.Errorf("delete the class: %v", err)
	}
}

// full makes a class whose Workspaces have a child of every kind.
func full(class *v1alpha1.ClusterClass) {
	class.Spec.Features = []string{v1alpha1.FeatureAutoScaling}
	class.Spec.Scaling.MinReplicas = 2
}

// patchClass merges a JSON patch into a class.
func (s *scenario) patchClass(class *v1alpha1.ClusterClass, patch string) {
	s.Helper()
	s.kubectl("patch", "clusterclass", class.Name, "--type=merge", "-p", patch)
}

// write makes a file for the test and returns its path.
func (s *scenario) write(name, content string) string {
	s.Helper()
	path := filepath.Join(s.TempDir(), name)
	s.must("write a file", os.WriteFile(path, []byte(content), 0o600))
	return path
}
