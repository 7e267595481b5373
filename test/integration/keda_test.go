// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// An operator that leaves Workspaces to KEDA says so where there is none; where there is, it writes what KEDA reads, leaves the replicas to
// it, and takes all back.
func kedaScales(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	class := s.class(economy(time.Minute))
	with := func(args ...string) {
		s.endMain(syscall.SIGTERM)
		p, err := s.start(context.WithoutCancel(s.Context()), mainOperator, args...)
		s.must("start the operator", err)
		s.operator = p
	}
	crd := filepath.Join(root, "pkg/reconcile/keda/testdata/http.keda.sh_httpscaledobjects.yaml")
	s.Cleanup(func() { // the kind goes while nobody watches it
		s.operator.stop()
		if _, err := s.cluster.kubectl(context.Background(), "delete", "--ignore-not-found", "-f", crd); err != nil {
			t.Error(err)
		}
		s.startMain()
	})

	// when
	with("--scale-to-zero=keda-http")
	shop := s.workspace("shop", class)

	// then
	s.eventually("it says that there is no KEDA", func() error {
		return condition(shop.get(), v1alpha1.ConditionScaleToZeroActive, metav1.ConditionFalse, v1alpha1.ReasonKEDANotInstalled)
	})
	shop.awake(1)

	// when
	s.kubectl("apply", "--server-side", "-f", crd)
	s.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "httpscaledobjects.http.keda.sh")
	with("--scale-to-zero=keda-http")

	// then
	s.eventually("it is left to KEDA", func() error {
		return condition(shop.get(), v1alpha1.ConditionScaleToZeroActive, metav1.ConditionTrue, v1alpha1.ReasonScaledByKEDA)
	})
	object := shop.scaledObject()
	if object == nil {
		t.Fatal("there is no HTTPScaledObject")
	}
	if period, _, _ := unstructured.NestedInt64(object.Object, "spec", "scaledownPeriod"); period != 60 {
		t.Errorf("scaledownPeriod is %d, want 60", period)
	}

	// when KEDA puts it to sleep
	s.kubectl("scale", "deployment/formspec-resource-shop", "--replicas=0")

	// then
	shop.asleep()
	s.eventually("the operator is quiet", func() error {
		start := s.now()
		for time.Since(start.received) < 2*time.Second {
			if err := nothing(s.sent(start)); err != nil {
				return err
			}
		}
		return nil
	})
	start := s.now()
	s.lasts(5*time.Second, "the operator sends nothing", func() error { return nothing(s.sent(start)) })

	// when somebody changes what is ours
	_, err := s.dynamic.Resource(keda.Resource).Namespace(s.namespace).Patch(s.Context(), names.Deployment("shop"), "application/merge-patch+json",
		[]byte(`{"spec":{"scaledownPeriod":7}}`), metav1.PatchOptions{FieldManager: "somebody"})
	s.must("patch the HTTPScaledObject", err)

	// then
	s.eventually("it is put back", func() error {
		if period, _, _ := unstructured.NestedInt64(shop.scaledObject().Object, "spec", "scaledownPeriod"); period != 60 {
			return fmt.Errorf("scaledownPeriod is %d, want 60", period)
		}
		return nil
	})

	// when the activator is used again
	with()

	// then
	s.eventually("the HTTPScaledObject is gone", func() error {
		if shop.scaledObject() != nil {
			return errors.New("it is still there")
		}
		return nil
	})
	shop.awake(1)
}

func (w *tenant) scaledObject() *unstructured.Unstructured {
	w.Helper()
	object, err := w.dynamic.Resource(keda.Resource).Namespace(w.namespace).Get(w.Context(), names.Deployment(w.name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must("get the HTTPScaledObject", err)
	return object
}

// Of several Workspaces that claim a host the oldest gets it, whatever its namespace; when it goes, the next one does.
func TestHosts(t *testing.T) {
	t.Parallel()
	s, other := given(t), given(t)
	suffix := s.namespace + ".example.com"
	class := s.class(func(c *v1alpha1.ClusterClass) { c.Spec.HostSuffixes = []string{suffix} })
	claims := func(hosts ...string) func(*v1alpha1.Workspace) {
		return func(ws *v1alpha1.Workspace) { ws.Spec.Hosts = hosts }
	}
	accepted := func(w *tenant, status metav1.ConditionStatus, reason string, texts ...string) {
		t.Helper()
		w.eventually(w.name+" says "+reason, func() error {
			return condition(w.get(), v1alpha1.ConditionHostsAccepted, status, reason, texts...)
		})
	}
	first := other.workspace("first", class, claims("shop."+suffix))
	accepted(first, metav1.ConditionTrue, v1alpha1.ReasonHostsAccepted)
	s.eventually("a second has passed", func() error { // creation times are in seconds
		if time.Since(first.get().CreationTimestamp.Time) < 2*time.Second {
			return errors.New("not yet")
		}
		return nil
	})
	second := s.workspace("second", class, claims("shop."+suffix, "second."+suffix))
	accepted(second, metav1.ConditionFalse, v1alpha1.ReasonHostConflict, "shop."+suffix)
	third := s.workspace("third", class, claims("third.example.org"))
	accepted(third, metav1.ConditionFalse, v1alpha1.ReasonHostNotAllowed, suffix)

	// when
	other.kubectl("delete", "workspace", "first")

	// then
	accepted(second, metav1.ConditionTrue, v1alpha1.ReasonHostsAccepted)
}
