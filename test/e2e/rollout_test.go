// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// A new hash of the binary replaces the pod, and no request fails meanwhile. Not parallel: beside tests that need all processors, the node's
// proxy can lead to a pod for longer than the pod waits to be left alone.
func TestBinaryHashRestartsUnderTraffic(t *testing.T) {
	s := given(t)
	shop := s.workspace("shop", s.class()).serving()
	pods := shop.watchPods()
	old := pods.nextReady().name
	traffic := shop.traffic(4)
	traffic.answeredBy(old)

	// when
	shop.patch(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationArtifactHash + `":"sha256-one"}}}`)

	// then
	next := pods.nextReady(old).name
	traffic.answeredBy(next)
	shop.rolledOut()
	traffic.answeredBy(next)
	traffic.unbroken()
	pods.were(old, next)
	if have := shop.deployment().Spec.Template.Annotations[v1alpha1.AnnotationArtifactHash]; have != "sha256-one" {
		t.Errorf("the template's hash is %q", have)
	}
	shop.ready()
}
