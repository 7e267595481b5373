// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// Whatever is edited, in whatever order, the end is what "render" prints for the last spec and class, and nothing else.
//
// FORMSPEC_SEED and FORMSPEC_EDITS, which a run prints, repeat its edits one by one.
func TestRandomEdits(t *testing.T) {
	t.Parallel()
	s := given(t)
	seed, edits, span := uint64(time.Now().UnixNano()), 0, 30*time.Second
	if long() {
		span = 10 * time.Minute
	}
	if text := os.Getenv("FORMSPEC_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		s.must("read FORMSPEC_SEED", err)
	}
	if text := os.Getenv("FORMSPEC_EDITS"); text != "" {
		var err error
		edits, err = strconv.Atoi(text)
		s.must("read FORMSPEC_EDITS", err)
		span = 0
	}
	e := &editor{scenario: s, random: rand.New(rand.NewPCG(seed, 0))}
	for i := range 4 {
		e.classes = append(e.classes, s.class(func(class *v1alpha1.ClusterClass) {
			class.GenerateName, class.Name = "", fmt.Sprintf("%s-%d", s.namespace, i)
		}))
	}
	for i := range 12 {
		e.tenants = append(e.tenants, s.workspace(fmt.Sprintf("w%d", i), e.classes[i%len(e.classes)]))
	}

	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the edits:\n%s", e.history)
		}
	})

	// when
	done := 0
	for began := time.Now(); time.Since(began) < span || done < edits; done++ {
		e.edit()
	}
	t.Logf("repeat with FORMSPEC_SEED=%d FORMSPEC_EDITS=%d", seed, done)
	e.makeRoom()

	// then
	for _, w := range e.tenants {
		s.eventually(w.name+" is as rendered", func() error {
			if ws := w.get(); ws.Status.ObservedGeneration != ws.Generation {
				return fmt.Errorf("generation %d is not looked at", ws.Generation)
			}
			return w.asAutoscaled()
		})
	}
}

// editor changes classes and Workspaces at random. What it draws does not depend on what comes of it, so that a seed repeats a run.
type editor struct {
	*scenario
	random  *rand.Rand
	classes []*v1alpha1.ClusterClass
	tenants []*tenant
	history string
}

func pick[T any](e *editor, from ...T) T { return from[e.random.IntN(len(from))] }

// edit makes one change.
func (e *editor) edit() {
	e.Helper()
	class, w := pick(e, e.classes...), pick(e, e.tenants...)
	switch e.random.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		e.patchSpec("clusterclass", class.Name, e.classField())
	case 8, 9, 10, 11, 12, 13:
		e.patchSpec("workspace", w.name, e.workspaceField())
	case 14:
		e.patchSpec("workspace", w.name, map[string]any{"clusterClass": class.Name})
	case 15, 16:
		e.annotate(w, v1alpha1.AnnotationIdle, pick[any](e, "true", "true", "false", nil))
	case 17:
		e.annotate(w, v1alpha1.AnnotationArtifactHash, pick[any](e, "a", "b", "c", nil))
	case 18:
		e.scale(w, int32(e.random.IntN(5))+1)
	case 19:
		e.replace(w, class.Name)
	}
}

func (e *editor) classField() map[string]any {
	switch e.random.IntN(10) {
	case 0, 1:
		return map[string]any{"features": pick(e, []string{}, []string{v1alpha1.FeatureAutoScaling}, []string{v1alpha1.FeatureCrossAZFailover, v1alpha1.FeatureAutoScaling}, []string{"ddos-protection"})}
	case 2:
		return map[string]any{"scaling": map[string]any{"minReplicas": e.random.IntN(4)}}
	case 3:
		return map[string]any{"scaling": map[string]any{"maxReplicas": pick[any](e, nil, 1, 3, 9)}}
	case 4:
		return map[string]any{"scaling": map[string]any{"scaleToZero": pick(e, true, true, false)}}
	case 5:
		return map[string]any{"scaling": map[string]any{"spread": pick[any](e, nil, "Preferred", "Required")}}
	case 6:
		return map[string]any{"nodeType": pick(e, "", "", "dedicated", "shared", "dev"), "availability": pick(e, "", "multi-az", "single-az")}
	case 7:
		return map[string]any{"region": pick(e, "", "", "jakarta", "surabaya")}
	case 8:
		return map[string]any{"resourceImage": pick(e, "", "example.com/app:1", "example.com/app:2", "example.com/app:slow")}
	default:
		return map[string]any{"sla": pick(e, "", "99.9", "99.99"), "storage": pick(e, "", "nvme-ssd"), "maxWorkspaces": pick(e, 0, 0, 2, 5)}
	}
}

func (e *editor) workspaceField() map[string]any {
	switch e.random.IntN(5) {
	case 0, 1:
		return map[string]any{"resources": map[string]any{"cpu": pick[any](e, nil, "100m", "1000m", "1", "4"), "memory": pick[any](e, nil, "128Mi", "1024Mi", "1Gi")}}
	case 2:
		return map[string]any{"environment": pick[any](e, nil, "prod", "staging", "dev")}
	case 3:
		return map[string]any{"region": pick(e, "", "jakarta", "surabaya")}
	default:
		return map[string]any{"owner": strconv.Itoa(e.random.IntN(100))}
	}
}

func (e *editor) did(what string, args ...any) {
	e.history += fmt.Sprintf("  "+what+"\n", args...)
}

// tolerable fails the test unless the edit has come too late or too early, or has met another one, as edits may.
func (e *editor) tolerable(what string, err error) {
	e.Helper()
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "maxReplicas must not be less than minReplicas"):
		e.did("  which is refused")
	default:
		e.Fatalf("%s: %v", what, err)
	}
}

func (e *editor) patchSpec(kind, name string, spec map[string]any) {
	e.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	e.must("encode the patch", err)
	e.did("%s %s: %s", kind, name, patch)
	if kind == "clusterclass" {
		_, err = e.formspec.FormspecV1alpha1().ClusterClasses().Patch(e.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = e.formspec.FormspecV1alpha1().Workspaces(e.namespace).Patch(e.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	e.tolerable("patch the "+kind, err)
}

func (e *editor) annotate(w *tenant, key string, value any) {
	e.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	e.must("encode the patch", err)
	e.did("workspace %s: %s", w.name, patch)
	_, err = e.formspec.FormspecV1alpha1().Workspaces(e.namespace).Patch(e.Context(), w.name, types.MergePatchType, patch, metav1.PatchOptions{})
	e.tolerable("annotate the Workspace", err)
}

// scale is what an autoscaler does, and at times a person.
func (e *editor) scale(w *tenant, replicas int32) {
	e.Helper()
	e.did("workspace %s: scaled to %d", w.name, replicas)
	name := names.Deployment(w.name)
	_, err := e.kube.AppsV1().Deployments(e.namespace).UpdateScale(e.Context(), name, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{FieldManager: "somebody"})
	e.tolerable("scale the Deployment", err)
}

// replace deletes a Workspace and creates it again, if it is gone at once.
func (e *editor) replace(w *tenant, class string) {
	e.Helper()
	e.did("workspace %s: deleted, and created in class %s", w.name, class)
	w.deleteWith(metav1.DeletePropagationBackground)
	e.eventually("the Workspace is created again", func() error {
		_, err := e.formspec.FormspecV1alpha1().Workspaces(e.namespace).Create(e.Context(), &v1alpha1.Workspace{
			ObjectMeta: metav1.ObjectMeta{Name: w.name}, Spec: v1alpha1.WorkspaceSpec{ClusterClass: class},
		}, metav1.CreateOptions{})
		return err
	})
}

// makeRoom takes away what keeps a Workspace from becoming what its spec says: limits, and regions that differ.
func (e *editor) makeRoom() {
	e.Helper()
	for _, class := range e.classes {
		e.patchSpec("clusterclass", class.Name, map[string]any{"maxWorkspaces": 0, "region": ""})
	}
}

// asAutoscaled is asRendered, but for the replica count while it belongs to an autoscaler: then it is only not zero, unless the Workspace sleeps.
func (w *tenant) asAutoscaled() error {
	w.Helper()
	if err := w.sameButReplicas(); err != nil {
		return err
	}
	spec, _ := w.rendered()["Deployment"]["spec"].(map[string]any)
	want, _ := normal(spec["replicas"]).(float64)
	if have := *w.deployment().Spec.Replicas; (have == 0) != (want == 0) {
		return fmt.Errorf("there are %d replicas asked for, and %v rendered", have, want)
	}
	return nil
}
