// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// asked is a restart request of Cluster Control.
func asked(hash string, cursor int64) option {
	return func(in *workspace.Input) {
		in.Restart = &workspace.Restart{Hash: hash, Version: "v-" + hash, Cursor: cursor}
	}
}

func TestRestartRequests(t *testing.T) {
	hash := func(value string) option { return annotated(v1alpha1.AnnotationArtifactHash, value) }
	noHash := object(func(ws *v1alpha1.Workspace) { delete(ws.Annotations, v1alpha1.AnnotationArtifactHash) })
	requested := func(hash string, cursor int64) *v1alpha1.ArtifactStatus {
		return &v1alpha1.ArtifactStatus{Hash: hash, Version: "v-" + hash, Cursor: cursor}
	}
	for name, row := range map[string]struct {
		options []option
		want    *v1alpha1.ArtifactStatus
	}{
		"the first":                {[]option{settled, asked("a", 1)}, requested("a", 1)},
		"a newer one":              {[]option{asked("a", 1), settled, asked("b", 2)}, requested("b", 2)},
		"an older one":             {[]option{asked("b", 2), settled, asked("a", 1)}, requested("b", 2)},
		"the same again":           {[]option{asked("a", 1), settled, asked("a", 1)}, requested("a", 1)},
		"for what runs already":    {[]option{asked("a", 1), settled, asked("a", 2)}, requested("a", 2)},
		"after an annotation":      {[]option{hash("x"), settled, noHash, settled, asked("a", 1)}, requested("a", 1)},
		"under an annotation":      {[]option{hash("x"), settled, asked("a", 1)}, &v1alpha1.ArtifactStatus{Hash: "x", Cursor: 1}},
		"with an annotation alike": {[]option{hash("a"), settled, asked("a", 1)}, requested("a", 1)},
		"under an annotation that vanishes": {
			[]option{hash("x"), settled, asked("a", 1), settled, noHash}, &v1alpha1.ArtifactStatus{Hash: "x", Cursor: 1},
		},
		"a newer one than an annotation that has vanished": {
			[]option{hash("x"), settled, asked("a", 1), settled, noHash, settled, asked("b", 2)}, requested("b", 2),
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(append(row.options, settled)...)
			if got := asJSON(in.Workspace.Status.Artifact); got != asJSON(row.want) {
				t.Errorf("the status has %s, want %s", got, asJSON(row.want))
			}
			if got := in.Children.Deployment.Live.Spec.Template.Annotations[v1alpha1.AnnotationArtifactHash]; got != row.want.Hash {
				t.Errorf("pods have %q, want %q", got, row.want.Hash)
			}
		})
	}
}

// The status has the request before pods follow: a leader that dies in between leaves nothing that its successor would take back.
func TestPodsFollowTheStatus(t *testing.T) {
	in := given(minimum(2), settled, asked("a", 1))
	p := workspace.Make(in)
	if len(p.Apply) != 0 || p.Status.Artifact == nil || p.Status.Artifact.Hash != "a" || p.After == 0 {
		t.Errorf("before: %d writes, the artifact %+v, again after %s", len(p.Apply), p.Status.Artifact, p.After)
	}
	in = then(in, planned)
	in.Restart = nil // the next leader does not know of it
	if p = workspace.Make(in); len(p.Apply) != 1 || p.After != 0 {
		t.Errorf("after: %d writes, again after %s", len(p.Apply), p.After)
	}
	in = then(in, planned)
	if p = workspace.Make(in); len(p.Apply) != 0 {
		t.Errorf("at last: %d writes", len(p.Apply))
	}
}
