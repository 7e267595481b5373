// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/image"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// obstacle is why no child may be written. What runs already keeps running, unless evict says otherwise.
type obstacle struct {
	reason  string
	message string
	stalled bool          // a user must act
	evict   bool          // and what runs here must go
	after   time.Duration // when to look again; zero: an event tells
}

// obstruct finds the first obstacle. Nil: the children can be what the spec says.
func obstruct(in Input) *obstacle {
	if o := misfit(in); o != nil {
		return o
	}
	if o := classFull(in); o != nil {
		return o
	}
	if o := nameTaken(in); o != nil {
		return o
	}
	return refusedAll(in)
}

// refusedAll finds a refusal that says something of the whole Workspace: a name is taken by an object that the cache does not show, or the
// Workspace itself may not be written.
func refusedAll(in Input) *obstacle {
	if r := in.Refusal; r != nil && (r.Reason == v1alpha1.ReasonNameConflict || in.refused("Workspace", in.Workspace.Name)) {
		return &obstacle{reason: r.Reason, message: r.Message, stalled: r.Stalled, after: conflictRetry}
	}
	return nil
}

// misfit finds why the Workspace could not run here even with a slot of its class.
func misfit(in Input) *obstacle {
	for _, check := range []func(Input) *obstacle{unreadable, otherCluster, classMissing, regionMismatch, invalidSpec, invalidClass, unpinnedImage} {
		if o := check(in); o != nil {
			return o
		}
	}
	return nil
}

// Candidate says whether the Workspace may ask for a slot of its class. One that could not run anyway holds nobody up.
func Candidate(in Input) bool { return misfit(in) == nil }

// Evicted says whether the Workspace must not run here and does not any more.
func Evicted(in Input) bool {
	o := otherCluster(in)
	return o != nil && o.evict && !in.Children.Deployment.Exists()
}

func classFull(in Input) *obstacle {
	switch {
	case in.Admitted == in.Class.Name:
		return nil
	case in.Class.DeletionTimestamp != nil:
		return &obstacle{reason: v1alpha1.ReasonClassFull, message: fmt.Sprintf(
			"ClusterClass %q is being deleted and admits nobody. Choose another in spec.clusterClass", in.Class.Name)}
	default:
		return &obstacle{reason: v1alpha1.ReasonClassFull, message: fmt.Sprintf(
			"all %d slots of ClusterClass %q are taken; the workspace gets the next free one that no older one waits for. Raise maxWorkspaces, or choose another class",
			in.Class.Spec.MaxWorkspaces, in.Class.Name)}
	}
}

// unreadable finds a Workspace of which only the metadata could be decoded.
func unreadable(in Input) *obstacle {
	if problem := in.Workspace.Annotations[v1alpha1.AnnotationUndecodable]; problem != "" {
		return invalid("the stored workspace cannot be read: %s. Correct the field", problem)
	}
	return nil
}

func otherCluster(in Input) *obstacle {
	if want := in.Workspace.Spec.Cluster; want != "" && want != in.Settings.ClusterName {
		return &obstacle{reason: v1alpha1.ReasonOtherCluster, evict: true, message: fmt.Sprintf(
			"spec.cluster is %q and this cluster is %q: nothing of this workspace runs here. Change spec.cluster, or create the workspace there",
			want, in.Settings.ClusterName)}
	}
	return nil
}

func classMissing(in Input) *obstacle {
	if in.Class == nil {
		return &obstacle{reason: v1alpha1.ReasonClusterClassNotFound, message: fmt.Sprintf(
			"there is no ClusterClass %q. Create it, or change spec.clusterClass; what runs already keeps running", in.Workspace.Spec.ClusterClass)}
	}
	return nil
}

// region of the class: the spec wins over the label, which the first tools wrote.
func region(class *v1alpha1.ClusterClass) string {
	if class.Spec.Region != "" {
		return class.Spec.Region
	}
	return class.Labels[v1alpha1.LabelRegion]
}

func regionMismatch(in Input) *obstacle {
	mine, its := in.Workspace.Spec.Region, region(in.Class)
	if mine != "" && its != "" && mine != its {
		return &obstacle{reason: v1alpha1.ReasonRegionMismatch, stalled: true, message: fmt.Sprintf(
			"spec.region is %q and ClusterClass %q is in %q. Change one of them", mine, in.Class.Name, its)}
	}
	return nil
}

// invalidSpec finds what a looser schema may have let in.
func invalidSpec(in Input) *obstacle {
	spec := in.Workspace.Spec
	type field struct{ name, value string }
	for _, f := range []field{{"spec.resources.cpu", spec.Resources.CPU}, {"spec.resources.memory", spec.Resources.Memory}} {
		if f.value == "" {
			continue
		}
		if q, err := resource.ParseQuantity(f.value); err != nil || q.Sign() < 0 {
			return invalid("%s is %q. Write a Kubernetes quantity that is not negative, such as 500m or 4Gi", f.name, f.value)
		}
	}
	for _, f := range []field{{"spec.region", spec.Region}, {"spec.environment", string(spec.Environment)}} {
		if problems := validation.IsValidLabelValue(f.value); len(problems) > 0 {
			return invalid("%s is %q, which no node label can have: %s", f.name, f.value, strings.Join(problems, "; "))
		}
	}
	return nil
}

// invalidClass finds class values that no pod can be made from.
func invalidClass(in Input) *obstacle {
	if problem := in.Class.Annotations[v1alpha1.AnnotationUndecodable]; problem != "" {
		return invalid("the stored ClusterClass %q cannot be read: %s. Correct the field", in.Class.Name, problem)
	}
	if _, known := tiers[in.Class.Spec.NodeType]; !known {
		return invalid("nodeType of ClusterClass %q is %q. Use dedicated, shared or dev, or leave it out", in.Class.Name, in.Class.Spec.NodeType)
	}
	if limit := in.Class.Spec.MaxWorkspaces; limit < 0 {
		return invalid("maxWorkspaces of ClusterClass %q is %d. Use a number that is not negative; 0 is no limit", in.Class.Name, limit)
	}
	return nil
}

func invalid(format string, args ...any) *obstacle {
	return &obstacle{reason: v1alpha1.ReasonInvalidSpec, stalled: true, message: fmt.Sprintf(format, args...)}
}

func unpinnedImage(in Input) *obstacle {
	if ref := in.image(); !in.Settings.AllowUnpinned && !image.Pinned(ref) {
		return &obstacle{reason: v1alpha1.ReasonUnpinnedImage, stalled: true, message: fmt.Sprintf(
			"image %q has no fixed version. Set resourceImage of ClusterClass %q to a version or a digest", ref, in.Class.Name)}
	}
	return nil
}

// nameTaken finds a foreign object in the cache under the name of a child that the Workspace should have. Those that our informers do not
// select are found by the create-only write.
func nameTaken(in Input) *obstacle {
	c := in.Children
	for _, child := range []struct {
		wanted bool
		kind   string
		exists bool
		object metav1.Object
	}{
		{true, "Secret", c.Credentials.Exists(), c.Credentials.Live},
		{true, "ConfigMap", c.ConfigMap.Exists(), c.ConfigMap.Live},
		{true, "Service", c.Service.Exists(), c.Service.Live},
		{in.sleepable() || in.hasSlice(), "Service", c.PodsService.Exists(), c.PodsService.Live},
		{in.sleepable(), "EndpointSlice", c.Slice.Exists(), c.Slice.Live},
		{true, "Deployment", c.Deployment.Exists(), c.Deployment.Live},
		{in.minimum() >= 2, "PodDisruptionBudget", c.DisruptionBudget.Exists(), c.DisruptionBudget.Live},
		{in.autoscaled(), "HorizontalPodAutoscaler", c.Autoscaler.Exists(), c.Autoscaler.Live},
		{in.kedaScaled(), keda.Kind, c.HTTPScaledObject.Exists(), c.HTTPScaledObject.Live},
	} {
		if child.wanted && child.exists && !Owns(in.Workspace, child.object) {
			taken := reconcile.NameConflict(child.kind, child.object.GetName())
			return &obstacle{reason: taken.Reason, message: taken.Message, stalled: taken.Stalled, after: conflictRetry}
		}
	}
	return nil
}

// Manager is the field manager of everything that a plan writes.
const Manager = "formspec-workspace"

// Owns says whether an object is the Workspace's own: by the UID of its controller. One without a controller is ours if we have applied it,
// which our field manager's entry proves: somebody took its owner reference off, or deleted an earlier Workspace of the same name with
// --cascade=orphan. The credentials Secret has no owner; it is ours by our labels and the full name of the Workspace, too. One that an
// earlier Workspace of the same name left behind is adopted.
func Owns(ws *v1alpha1.Workspace, object metav1.Object) bool {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return owner.UID == ws.UID
	}
	return applied(object) || ownsCredentials(ws.Name, object)
}

// mine says whether the cache has a child, and it is the Workspace's own.
func mine[T reconcile.Object, C reconcile.TypedConfig[C]](ws *v1alpha1.Workspace, child reconcile.Child[T, C]) bool {
	return child.Exists() && Owns(ws, child.Live)
}

// Orphaned says whether a child has lost its owner reference: somebody removed it, or the Workspace is being deleted with
// --cascade=orphan, which its own cache may not show yet. Whoever takes the child in again has to ask the API server first.
func Orphaned(in Input) bool {
	c := in.Children
	return in.Workspace.DeletionTimestamp == nil && (orphan(c.ConfigMap) || orphan(c.Service) || orphan(c.PodsService) || orphan(c.Slice) ||
		orphan(c.Deployment) || orphan(c.DisruptionBudget) || orphan(c.Autoscaler) || orphan(c.HTTPScaledObject))
}

func orphan[T reconcile.Object, C reconcile.TypedConfig[C]](child reconcile.Child[T, C]) bool {
	return child.Exists() && metav1.GetControllerOfNoCopy(child.Live) == nil && applied(child.Live)
}

// applied says whether our field manager owns fields of the object by an apply. The name of a child says whose it is.
func applied(object metav1.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == Manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
}

func ownsCredentials(workspace string, object metav1.Object) bool {
	if object.GetName() != names.Credentials(workspace) || metav1.GetControllerOfNoCopy(object) != nil {
		return false
	}
	marked := object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy &&
		object.GetAnnotations()[v1alpha1.AnnotationWorkspaceName] == workspace
	return marked || reconcile.Legacy(object)
}
