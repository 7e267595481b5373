// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// recordedSoon is when to look again at a restart request that is in the status now.
const recordedSoon = 100 * time.Millisecond

// artifactHash restarts the pods when it changes. The annotation wins while it is there; the status keeps it afterwards.
func (in Input) artifactHash() string {
	if artifact := in.artifact(); artifact != nil {
		return artifact.Hash
	}
	return ""
}

// artifact is what the pods run.
func (in Input) artifact() *v1alpha1.ArtifactStatus {
	known := in.Workspace.Status.Artifact
	hash := in.Workspace.Annotations[v1alpha1.AnnotationArtifactHash]
	if hash == "" && (known == nil || known.Cursor == 0) {
		hash = in.runningHash() // the annotation may have gone before the status could tell of it
	}
	if hash == "" || (known != nil && known.Hash == hash) {
		return known
	}
	artifact := v1alpha1.ArtifactStatus{Hash: hash}
	if known != nil {
		artifact.Cursor = known.Cursor // so that an older request does not come back
	}
	return &artifact
}

// newest is the artifact that the status has to hold: what the pods run, or a newer restart request, which they run as soon as the status
// holds it. So no leader can take pods back to what they ran before a request that an earlier leader has carried out.
func (in Input) newest() *v1alpha1.ArtifactStatus {
	current := in.artifact()
	if !in.restarts() {
		return current
	}
	next := &v1alpha1.ArtifactStatus{Hash: in.Restart.Hash, Version: in.Restart.Version, Cursor: in.Restart.Cursor}
	if hash := in.Workspace.Annotations[v1alpha1.AnnotationArtifactHash]; hash != "" && hash != next.Hash { // it wins, and the request is done with
		next.Hash, next.Version = hash, ""
	}
	return next
}

// restarts says that there is a request which is newer than what the status holds.
func (in Input) restarts() bool {
	known := in.Workspace.Status.Artifact
	return in.Restart != nil && (known == nil || in.Restart.Cursor > known.Cursor)
}

// runningHash is the hash that we gave to the pods last. Empty: none.
func (in Input) runningHash() string {
	ours := in.Children.Deployment.Ours
	if ours == nil || ours.Spec == nil || ours.Spec.Template == nil || ours.Spec.Template.ObjectMetaApplyConfiguration == nil {
		return ""
	}
	return ours.Spec.Template.Annotations[v1alpha1.AnnotationArtifactHash]
}
