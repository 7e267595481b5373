// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Any name that the API server accepts makes a Workspace that becomes Ready, and no two of them share a child or a pod.
func TestNames(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.class(full)
	long := strings.Repeat("abcdefghij", 6)
	var tenants []*tenant
	for _, name := range []string{
		"a", "a-b", "a.b", "a.b.c", "a-b-c", "0", "9to5", "1.2.3",
		strings.Repeat("a", 45), strings.Repeat("b", 52), strings.Repeat("c", 63), strings.Repeat("d", 64), strings.Repeat("e", 253),
		long + "-1", long + "-2", long + ".1", // they share 60 characters
		strings.Repeat("f.", 126) + "f", // 253 characters, and as many labels as there can be
		"a-config", "config",
	} {
		tenants = append(tenants, s.workspace(name, class))
	}

	uids := map[types.UID]string{}
	for _, w := range tenants {
		w.ready()
		if err := w.asRendered(); err != nil {
			t.Error(err)
		}
		for _, k := range childKinds {
			child := w.child(k)
			if child == nil {
				t.Errorf("%s of %q: there is none", k.kind, w.name)
				continue
			}
			if other := uids[child.GetUID()]; other != "" {
				t.Errorf("%s of %q is that of %q", k.kind, w.name, other)
			}
			uids[child.GetUID()] = w.name
		}
		if err := w.servesItself(); err != nil {
			t.Error(err)
		}
	}
}

// servesItself returns an error unless the Service selects the pods of this Workspace and no others.
func (w *tenant) servesItself() error {
	service, err := w.kube.CoreV1().Services(w.namespace).Get(w.Context(), kindOf("Service").name(w.name), metav1.GetOptions{})
	w.must("get the Service", err)
	pods, err := w.kube.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String()})
	w.must("list the pods", err)
	ids := sets.New[string]()
	for _, pod := range pods.Items {
		for _, env := range pod.Spec.Containers[0].Env {
			if env.Name == "WORKSPACE_ID" {
				ids.Insert(env.Value)
			}
		}
	}
	if len(pods.Items) != 2 || !ids.Equal(sets.New(w.name)) {
		return fmt.Errorf("the Service of %q selects %d pods of %q, want 2 of its own", w.name, len(pods.Items), sets.List(ids))
	}
	return nil
}
