// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

func region(name string) option {
	return spec(func(s *v1alpha1.WorkspaceSpec) { s.Region = name })
}

func classRegion(name string) option {
	return class(func(c *v1alpha1.ClusterClass) { c.Spec.Region = name })
}

func classRegionLabel(name string) option {
	return class(func(c *v1alpha1.ClusterClass) { c.Labels = map[string]string{v1alpha1.LabelRegion: name} })
}

func cluster(name string) option {
	return spec(func(s *v1alpha1.WorkspaceSpec) { s.Cluster = name })
}

func image(ref string) option {
	return class(func(c *v1alpha1.ClusterClass) { c.Spec.ResourceImage = ref })
}

func nodeType(name string) option {
	return class(func(c *v1alpha1.ClusterClass) { c.Spec.NodeType = name })
}

// obstacles are what keeps a workspace from being made, but for taken names and other clusters, which have tests of their own.
var obstacles = map[string]struct {
	given   option
	reason  string
	stalled bool
	message string // a part of it: what is wrong, named as the user wrote it
}{
	"there is no class of that name":         {noClass, v1alpha1.ReasonClusterClassNotFound, false, `no ClusterClass "standard"`},
	"the class is in another region":         {both(region("jakarta"), classRegion("surabaya")), v1alpha1.ReasonRegionMismatch, true, `"jakarta" and ClusterClass "standard" is in "surabaya"`},
	"the class's label names another region": {both(region("jakarta"), classRegionLabel("surabaya")), v1alpha1.ReasonRegionMismatch, true, `is in "surabaya"`},
	"the class's region wins over its label": {both(region("jakarta"), classRegionLabel("jakarta"), classRegion("surabaya")), v1alpha1.ReasonRegionMismatch, true, `is in "surabaya"`},
	"the CPU is no quantity":                 {resources("two", ""), v1alpha1.ReasonInvalidSpec, true, `spec.resources.cpu is "two"`},
	"the CPU is negative":                    {resources("-1", ""), v1alpha1.ReasonInvalidSpec, true, `spec.resources.cpu is "-1"`},
	"the memory is no quantity":              {resources("", "4 GB"), v1alpha1.ReasonInvalidSpec, true, `spec.resources.memory is "4 GB"`},
	"the memory is negative":                 {resources("", "-4Gi"), v1alpha1.ReasonInvalidSpec, true, `spec.resources.memory is "-4Gi"`},
	"no node label can have the region":      {region("west java"), v1alpha1.ReasonInvalidSpec, true, `spec.region is "west java"`},
	"no node label can have the environment": {spec(func(s *v1alpha1.WorkspaceSpec) { s.Environment = "a/b" }), v1alpha1.ReasonInvalidSpec, true, `spec.environment is "a/b"`},
	"the class has a negative limit": {
		class(func(c *v1alpha1.ClusterClass) { c.Spec.MaxWorkspaces = -1 }), v1alpha1.ReasonInvalidSpec, true,
		`maxWorkspaces of ClusterClass "standard" is -1. Use a number that is not negative`,
	},
	"the class has an unknown type of node": {nodeType("bare-metal"), v1alpha1.ReasonInvalidSpec, true, `nodeType of ClusterClass "standard" is "bare-metal"`},
	"the class's image has no version":      {image("formahub/formspec-resource"), v1alpha1.ReasonUnpinnedImage, true, `image "formahub/formspec-resource" has no fixed version`},
	"the class's image is the latest":       {image("formahub/formspec-resource:latest"), v1alpha1.ReasonUnpinnedImage, true, `image "formahub/formspec-resource:latest"`},
	"the operator's image has no version":   {settings(func(s *workspace.Settings) { s.Image = "app" }), v1alpha1.ReasonUnpinnedImage, true, `image "app"`},
	"the first of several is told":          {both(nodeType("bare-metal"), region("a"), classRegion("b")), v1alpha1.ReasonRegionMismatch, true, ""},
}

// both is several options as one.
func both(options ...option) option {
	return func(in *workspace.Input) { *in = then(*in, options...) }
}

func TestAnObstacleKeepsANewWorkspaceFromStarting(t *testing.T) {
	for name, row := range obstacles {
		t.Run(name, func(t *testing.T) {
			plan := workspace.Make(given(row.given))
			refuseToWrite(t, plan)
			expectFailure(t, plan, row.reason, row.stalled, row.message)
			if plan.Status.Phase != v1alpha1.PhasePending {
				t.Errorf("phase %s, want Pending: it never ran", plan.Status.Phase)
			}
		})
	}
}

func TestAnObstacleLeavesARunningWorkspaceAsItIs(t *testing.T) {
	for name, row := range obstacles {
		t.Run(name, func(t *testing.T) {
			in := given(settled, ready(1), row.given)
			plan := workspace.Make(in)
			refuseToWrite(t, plan)
			expectFailure(t, plan, row.reason, row.stalled, row.message)
			if plan.Status.Phase != v1alpha1.PhaseDegraded || plan.Status.ReadyReplicas != 1 {
				t.Errorf("phase %s with %d ready replicas, want Degraded with 1: it still runs", plan.Status.Phase, plan.Status.ReadyReplicas)
			}
		})
	}
}

func TestAnObstacleThatIsGoneLeavesNothingBehind(t *testing.T) {
	in := given(settled, ready(1), settled)
	before := in.Workspace.Status
	for name, row := range obstacles {
		t.Run(name, func(t *testing.T) {
			blocked := then(given(settled, ready(1), settled), row.given, planned)
			in.Workspace = blocked.Workspace.DeepCopy()
			in.Workspace.Spec = given().Workspace.Spec
			got := workspace.Make(in).Status
			if readyCondition(got).Status != metav1.ConditionTrue || conditionOf(got, v1alpha1.ConditionStalled).Type != "" || got.Phase != before.Phase {
				t.Errorf("status %s, want that of before: %s", asJSON(got), asJSON(before))
			}
		})
	}
}

func TestWhatIsNoObstacle(t *testing.T) {
	for name, option := range map[string]option{
		"the regions are the same":                        both(region("jakarta"), classRegion("jakarta")),
		"the workspace names no region":                   classRegion("jakarta"),
		"the class names no region":                       region("jakarta"),
		"the class's region wins over its label":          both(region("jakarta"), classRegionLabel("surabaya"), classRegion("jakarta")),
		"the workspace is meant for this cluster":         cluster("jkt-1"),
		"a cluster without a name, nothing stated":        settings(func(s *workspace.Settings) { s.ClusterName = "" }),
		"a quantity of nothing":                           resources("0", "0"),
		"an image by digest, though called latest":        image("app:latest@sha256:" + strings.Repeat("a", 64)),
		"an image without a version where that is let by": both(image("app"), settings(func(s *workspace.Settings) { s.AllowUnpinned = true })),
	} {
		t.Run(name, func(t *testing.T) {
			plan := workspace.Make(given(option))
			if child := len(plan.Apply); child != 4 || readyCondition(plan.Status).Reason != v1alpha1.ReasonRolloutInProgress {
				t.Errorf("%d writes and Ready %s, want all 4 children to be written", child, asJSON(readyCondition(plan.Status)))
			}
		})
	}
}

func TestAForeignObjectUnderAChildsNameIsLeftAlone(t *testing.T) {
	takers := map[string]func(metav1.Object){
		"which nobody owns":                      func(o metav1.Object) { o.SetOwnerReferences(nil); o.SetAnnotations(nil) },
		"which an earlier workspace's child was": func(o metav1.Object) { ownedBy(o, "uid-of-an-earlier-shop") },
	}
	for who, take := range takers {
		for kind, child := range map[string]func(*workspace.Input) metav1.Object{
			"Secret":                  func(in *workspace.Input) metav1.Object { return in.Children.Credentials.Live },
			"ConfigMap":               func(in *workspace.Input) metav1.Object { return in.Children.ConfigMap.Live },
			"Service":                 func(in *workspace.Input) metav1.Object { return in.Children.Service.Live },
			"Deployment":              func(in *workspace.Input) metav1.Object { return in.Children.Deployment.Live },
			"PodDisruptionBudget":     func(in *workspace.Input) metav1.Object { return in.Children.DisruptionBudget.Live },
			"HorizontalPodAutoscaler": func(in *workspace.Input) metav1.Object { return in.Children.Autoscaler.Live },
		} {
			t.Run("a "+kind+" "+who, func(t *testing.T) {
				in := given(minimum(2), autoScaling, settled, rollout(2, 2, 2))
				foreign := child(&in)
				take(foreign)
				in = then(in, resources("1", "1Gi")) // there would be something to write
				plan := workspace.Make(in)
				refuseToWrite(t, plan)
				expectFailure(t, plan, v1alpha1.ReasonNameConflict, true, kind+` "`+foreign.GetName()+`" exists and does not belong`)
				if plan.After != 30*time.Second {
					t.Errorf("looked at again after %s, want 30s: nobody tells that the name is free", plan.After)
				}
				if wantReady := valueIf(kind != "Deployment", int32(2)); plan.Status.ReadyReplicas != wantReady {
					t.Errorf("%d ready replicas, want %d: a stranger's pods are not ours", plan.Status.ReadyReplicas, wantReady)
				}
			})
		}
	}
}

func TestAForeignObjectUnderANameThatIsNotWantedIsInNobodysWay(t *testing.T) {
	everything := []option{minimum(2), autoScaling, scaleToZero, settled, rollout(2, 2, 2)}
	for kind, child := range map[string]func(*workspace.Children) metav1.Object{
		"headless Service":        func(c *workspace.Children) metav1.Object { return c.PodsService.Live },
		"EndpointSlice":           func(c *workspace.Children) metav1.Object { return c.Slice.Live },
		"PodDisruptionBudget":     func(c *workspace.Children) metav1.Object { return c.DisruptionBudget.Live },
		"HorizontalPodAutoscaler": func(c *workspace.Children) metav1.Object { return c.Autoscaler.Live },
	} {
		t.Run(kind, func(t *testing.T) {
			full := given(everything...)
			foreign := child(&full.Children)
			foreign.SetOwnerReferences(nil)
			foreign.SetManagedFields(nil)
			refuseToWrite(t, workspace.Make(full))
			expectFailure(t, workspace.Make(full), v1alpha1.ReasonNameConflict, true, foreign.GetName())

			// A workspace that has none of this, whose Deployment somebody has deleted.
			in := given(settled, ready(1), func(in *workspace.Input) { in.Children.Deployment = workspace.Deployment{} })
			switch kind {
			case "headless Service":
				in.Children.PodsService = full.Children.PodsService
			case "EndpointSlice":
				in.Children.Slice = full.Children.Slice
			case "PodDisruptionBudget":
				in.Children.DisruptionBudget = full.Children.DisruptionBudget
			default:
				in.Children.Autoscaler = full.Children.Autoscaler
			}
			plan := workspace.Make(in)
			if got := strings.Join(writes(plan), ", "); got != "Deployment if the name is free" || len(plan.Delete) > 0 {
				t.Errorf("writes %q and deletes %v, want the Deployment back and nothing else touched", got, plan.Delete)
			}
			if got := readyCondition(plan.Status); got.Reason == v1alpha1.ReasonNameConflict {
				t.Errorf("Ready is %s", asJSON(got))
			}
		})
	}
}

// valueIf is value where the condition holds, and nothing otherwise.
func valueIf[T any](holds bool, value T) T {
	if holds {
		return value
	}
	return *new(T)
}

func TestACredentialsSecretIsAdoptedByNameAndMark(t *testing.T) {
	for name, row := range map[string]struct {
		change func(metav1.Object)
		want   string
	}{
		"an earlier workspace left it behind": {func(o metav1.Object) { o.GetLabels()[v1alpha1.LabelRetained] = "true" }, v1alpha1.ReasonAvailable},
		"it is not the operator's":            {func(o metav1.Object) { delete(o.GetLabels(), v1alpha1.LabelManagedBy) }, v1alpha1.ReasonNameConflict},
		"it does not name its workspace":      {func(o metav1.Object) { o.SetAnnotations(nil) }, v1alpha1.ReasonNameConflict},
		"it names another workspace":          {func(o metav1.Object) { o.GetAnnotations()[v1alpha1.AnnotationWorkspaceName] = "sh.op" }, v1alpha1.ReasonNameConflict},
		"it belongs to somebody":              {func(o metav1.Object) { ownedBy(o, "uid-of-somebody") }, v1alpha1.ReasonNameConflict},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(settled, ready(1))
			row.change(in.Children.Credentials.Live)
			if got := readyCondition(workspace.Make(in).Status).Reason; got != row.want {
				t.Errorf("Ready says %s, want %s", got, row.want)
			}
		})
	}
}

func TestAWorkspaceOfAnotherClusterHasNothingHere(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		deletes []string
	}{
		"it never ran here":            {[]option{cluster("sby-1")}, nil},
		"this cluster has no name":     {[]option{cluster("sby-1"), settings(func(s *workspace.Settings) { s.ClusterName = "" })}, nil},
		"it ran here":                  {[]option{settled, ready(1), cluster("sby-1")}, []string{"Deployment", "Service", "ConfigMap"}},
		"it ran here with every child": {[]option{minimum(2), autoScaling, settled, ready(2), cluster("sby-1")}, []string{"HorizontalPodAutoscaler", "PodDisruptionBudget", "Deployment", "Service", "ConfigMap"}},
		"its class is gone as well":    {[]option{settled, ready(1), cluster("sby-1"), noClass}, []string{"Deployment", "Service", "ConfigMap"}},
		"its Deployment is going already": {[]option{settled, cluster("sby-1"), func(in *workspace.Input) {
			in.Children.Deployment.Live.DeletionTimestamp = new(metav1.NewTime(start))
		}}, []string{"Service", "ConfigMap"}},
		"its Service is a stranger's": {[]option{settled, cluster("sby-1"), func(in *workspace.Input) { in.Children.Service.Live.OwnerReferences = nil }}, []string{"Deployment", "ConfigMap"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(row.options...)
			plan := workspace.Make(in)
			expectFailure(t, plan, v1alpha1.ReasonOtherCluster, false, `spec.cluster is "sby-1"`)
			var deletes []string
			for _, child := range plan.Delete {
				if deletes = append(deletes, child.Kind); string(child.UID) != "uid-of-"+child.Kind || !strings.HasPrefix(child.Name, "formspec-resource-shop") {
					t.Errorf("deletes %+v, which does not name exactly our own", child)
				}
			}
			if strings.Join(deletes, " ") != strings.Join(row.deletes, " ") {
				t.Errorf("deletes %q, want %q", deletes, row.deletes)
			}
			if kept := in.Children.Credentials.Exists(); len(plan.Apply) != valueIf(kept, 1) {
				t.Errorf("writes %q, want only the mark on the credentials, if there are any", writes(plan))
			}
			if in = then(in, planned); in.Children.Credentials.Exists() {
				if got := in.Children.Credentials.Live.Labels[v1alpha1.LabelRetained]; got != "true" {
					t.Errorf("the credentials are not marked as retained: %q", got)
				}
			}
		})
	}
}

func TestAWorkspaceThatComesBackFromAnotherClusterStartsAgain(t *testing.T) {
	in := given(settled, ready(1), cluster("sby-1"), settled, cluster("jkt-1"))
	want := "Secret if uid-of-Secret, ConfigMap if the name is free, Service if the name is free, Deployment if the name is free"
	if got := strings.Join(writes(workspace.Make(in)), ", "); got != want {
		t.Errorf("writes %s, want %s", got, want)
	}
	in = then(in, settled)
	if mark, marked := in.Children.Credentials.Live.Labels[v1alpha1.LabelRetained]; marked {
		t.Errorf("the credentials are in use and still marked as retained: %q", mark)
	}
}

func refuseToWrite(t *testing.T, plan workspace.Plan) {
	t.Helper()
	if plan.Finalizer != reconcile.FinalizerKeep || len(plan.Apply) > 0 || len(plan.Delete) > 0 {
		t.Errorf("the plan has finalizer %d, writes %q and deletes %v, want nothing", plan.Finalizer, writes(plan), plan.Delete)
	}
}

func expectFailure(t *testing.T, plan workspace.Plan, reason string, stalled bool, message string) {
	t.Helper()
	got := readyCondition(plan.Status)
	if got.Status != metav1.ConditionFalse || got.Reason != reason || !strings.Contains(got.Message, message) {
		t.Errorf("Ready is %s %s %q, want False %s with %q", got.Status, got.Reason, got.Message, reason, message)
	}
	if s := conditionOf(plan.Status, v1alpha1.ConditionStalled); (s.Status == metav1.ConditionTrue) != stalled || (stalled && s.Reason != reason) || (!stalled && s.Type != "") {
		t.Errorf("Stalled is %s, want it to be there: %v", asJSON(s), stalled)
	}
}

func TestAWorkspaceWithoutASlotOfItsClassWaits(t *testing.T) {
	deletedClass := class(func(c *v1alpha1.ClusterClass) { c.DeletionTimestamp = new(metav1.NewTime(start)) })
	full := class(func(c *v1alpha1.ClusterClass) { c.Spec.MaxWorkspaces = 50 })
	for name, row := range map[string]struct {
		options []option
		message string
		phase   v1alpha1.Phase
	}{
		"a new one":                           {[]option{full, waiting}, `all 50 slots of ClusterClass "standard" are taken`, v1alpha1.PhasePending},
		"a new one of a class that is going":  {[]option{deletedClass, waiting}, `ClusterClass "standard" is being deleted and admits nobody`, v1alpha1.PhasePending},
		"one that runs and came from another": {[]option{settled, ready(1), full, waiting}, "slots", v1alpha1.PhaseDegraded},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(append(row.options, resources("1", "1Gi"))...)
			in.Admitted = ""
			plan := workspace.Make(in)
			refuseToWrite(t, plan)
			expectFailure(t, plan, v1alpha1.ReasonClassFull, false, row.message)
			if got := conditionOf(plan.Status, v1alpha1.ConditionAdmitted); got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonClassFull {
				t.Errorf("Admitted is %s, want False ClassFull", asJSON(got))
			}
			if plan.Status.Phase != row.phase || plan.Status.AdmittedClass != "" {
				t.Errorf("phase %s and admitted to %q, want %s and to none", plan.Status.Phase, plan.Status.AdmittedClass, row.phase)
			}
		})
	}
}

func TestASlotIsShownInTheStatus(t *testing.T) {
	status := workspace.Make(given()).Status
	if got := conditionOf(status, v1alpha1.ConditionAdmitted); got.Status != metav1.ConditionTrue || status.AdmittedClass != "standard" {
		t.Errorf("Admitted is %s to %q, want True to the class", asJSON(got), status.AdmittedClass)
	}
	moved := given(settled, spec(func(s *v1alpha1.WorkspaceSpec) { s.ClusterClass = "gone" }), noClass)
	status = workspace.Make(moved).Status
	if got := conditionOf(status, v1alpha1.ConditionAdmitted); got.Type != "" || status.AdmittedClass != "standard" {
		t.Errorf("Admitted is %s to %q, want none, for the slot of the class before is held on to", asJSON(got), status.AdmittedClass)
	}
}
