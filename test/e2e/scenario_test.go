// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
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

const (
	// patience is how long a test waits for what must happen. It is far more than an idle machine needs.
	patience = 3 * time.Minute
	// pollInterval is short, because the tests' requests are few and cheap.
	pollInterval = 100 * time.Millisecond
)

// scenario is one test with a namespace of its own, in which pods must be restricted.
type scenario struct {
	*testing.T
	*environment
	namespace string
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// given begins a scenario, or skips the test where there is no real node.
func given(t *testing.T) *scenario {
	t.Helper()
	if shared == nil {
		t.Skip(skipped)
	}
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	if len(name) > 40 {
		name = strings.Trim(name[:40], "-")
	}
	s := &scenario{T: t, environment: shared, namespace: name + "-" + rand.String(5)}
	_, err := s.kube.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	s.must("create the namespace", err)
	t.Cleanup(s.end)
	return s
}

// end tells what was there if the test failed, and deletes the namespace.
func (s *scenario) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.Failed() {
		for _, args := range [][]string{
			{"get", "workspaces,datastores,resourceclaims,deployments,pods,services,endpointslices", "-n", s.namespace, "-o", "wide"},
			{"get", "events", "-n", s.namespace},
			{"logs", "-n", s.namespace, "-l", "app.kubernetes.io/managed-by=formspec-operator", "--prefix", "--tail=20"},
			{"get", "pods", "-n", systemNamespace, "-o", "wide"},
			{"logs", "-n", systemNamespace, "-l", operatorSelector, "--prefix", "--tail=40"},
			{"get", "pods,endpointslices", "-n", v1alpha1.ActivatorNamespace, "-o", "wide"},
			{"logs", "-n", v1alpha1.ActivatorNamespace, "-l", activatorSelector, "--prefix", "--tail=40"},
		} {
			out, err := s.cluster.kubectl(ctx, args...)
			s.Logf("kubectl %s\n%s%v", strings.Join(args, " "), out, err)
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
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), pollInterval, patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		s.Fatalf("%s: not within %s: %v", what, patience, errors.Join(last, err))
	}
}

// pass lets time go by where time itself is what is tested: an outage, a window, what a client was told to wait.
func (s *scenario) pass(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Context().Done():
		s.Fatal(s.Context().Err())
	}
}

// class creates a ClusterClass of the scenario, which goes with it. Without a change it is one that asks for nothing: one replica, any node.
func (s *scenario) class(change ...func(*v1alpha1.ClusterClass)) *v1alpha1.ClusterClass {
	s.Helper()
	class := &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{GenerateName: s.namespace + "-"}}
	for _, f := range change {
		f(class)
	}
	class, err := s.formspec.FormspecV1alpha1().ClusterClasses().Create(s.Context(), class, metav1.CreateOptions{})
	s.must("create the class", err)
	s.Cleanup(func() {
		if err := s.formspec.FormspecV1alpha1().ClusterClasses().Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
			s.Errorf("delete the class: %v", err)
		}
	})
	return class
}

// image gives the node the stand-in under a tag of the scenario's own, with variables such as "START_DELAY=30s" (see test/resource), and
// returns its name for ClusterClass.spec.resourceImage.
func (s *scenario) image(variables ...string) string {
	s.Helper()
	name := "formahub/formspec-resource:" + s.namespace + "-" + rand.String(5)
	args := []string{"image", name, s.path("formspec-resource")}
	for _, v := range variables {
		args = append(args, "--env", v)
	}
	_, err := s.cluster.devcluster(s.Context(), args...)
	s.must("load an image", err)
	return name
}
