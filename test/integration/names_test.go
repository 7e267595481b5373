// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
		"a-config", "config", "a-pods", "a-pods-pods", "pods", "a-db-credentials", "a-activator",
		// the second is what the first would be with its hash
		"a-rather-long-name-of-a-shop.example-company.com", "a-rather-long-name-of-a-shop-example-company-com-5ac5f631b1",
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
		if err := w.servesItself(kindOf("Service")); err != nil {
			t.Error(err)
		}
	}
}

// A Workspace that scales to zero has a second Service, which is nobody else's first.
func TestNamesOfHeadlessServices(t *testing.T) {
	t.Parallel()
	s := given(t)
	class, economic := s.class(full), s.class(full, economy(time.Hour))
	var tenants []*tenant
	for _, name := range []string{"shop", "shop-pods", "shop-pods-pods"} {
		tenants = append(tenants, s.workspace(name, economic))
	}
	other := s.workspace("cafe-pods", class) // the first to come
	other.ready()
	cafe := s.workspace("cafe", class)
	cafe.ready()
	s.patchClass(class, `{"spec":{"scaling":{"scaleToZero":true,"idleAfter":"1h"}}}`)
	services := map[types.UID]string{}
	for _, w := range append(tenants, cafe, other) {
		w.ready()
		for _, k := range []childKind{kindOf("Service"), sleeperKinds[0]} {
			s.eventually(fmt.Sprintf("%q has Service %q, of its own", w.name, k.name(w.name)), func() error {
				service := w.child(k)
				switch {
				case service == nil:
					return errors.New("there is none")
				case services[service.GetUID()] != "":
					return fmt.Errorf("it is that of %s", services[service.GetUID()])
				}
				if err := w.servesItself(k); err != nil {
					return err
				}
				services[service.GetUID()] = w.name
				return nil
			})
		}
	}
}

// servesItself returns an error unless that Service of it selects the pods of this Workspace and no others.
func (w *tenant) servesItself(k childKind) error {
	service, err := w.kube.CoreV1().Services(w.namespace).Get(w.Context(), k.name(w.name), metav1.GetOptions{})
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
		return fmt.Errorf("Service %q of %q selects %d pods of %q, want 2 of its own", service.Name, w.name, len(pods.Items), sets.List(ids))
	}
	return nil
}
