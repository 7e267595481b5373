// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
)

type deployments = cache.TypedResourceEventHandler[*appsv1.Deployment]

// childOf is a Deployment of the workspace "shop".
func childOf(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: childName, UID: "uid-of-child", ResourceVersion: "7", Generation: 1,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Workspace", Name: "shop", UID: "uid-of-shop", Controller: new(true),
		}},
	}}
	for _, change := range changes {
		change(d)
	}
	return d
}

// owner changes the reference to the owner.
func owner(change func(*metav1.OwnerReference)) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { change(&d.OwnerReferences[0]) }
}

func TestWhatOfAChildWakesItsOwner(t *testing.T) {
	newVersion := func(d *appsv1.Deployment) { d.ResourceVersion = "8" }
	status := func(d *appsv1.Deployment) { d.Status.ReadyReplicas++ }
	spec := func(d *appsv1.Deployment) { d.Generation++ }
	till := owner(func(o *metav1.OwnerReference) { o.Name, o.UID = "till", "uid-of-till" })
	nobody := func(d *appsv1.Deployment) { d.OwnerReferences = nil }
	deleted := func(d *appsv1.Deployment) cache.DeletedObject[*appsv1.Deployment] {
		return cache.DeletedObject[*appsv1.Deployment]{OptionalObj: d}
	}

	for name, row := range map[string]struct {
		do   func(deployments)
		ours bool // version 8 is of our own write
		want map[string]urgency
	}{
		"it was there at the start: every workspace wakes then": {func(h deployments) { h.OnAdd(childOf(), true) }, false, nil},
		"it comes":                    {func(h deployments) { h.OnAdd(childOf(), false) }, false, map[string]urgency{"bank/shop": soon}},
		"it comes, made by ourselves": {func(h deployments) { h.OnAdd(childOf(newVersion), false) }, true, nil},
		"nothing that matters":        {func(h deployments) { h.OnUpdate(childOf(), childOf(newVersion)) }, false, nil},
		"its status":                  {func(h deployments) { h.OnUpdate(childOf(), childOf(newVersion, status)) }, false, map[string]urgency{"bank/shop": soon}},
		"its spec":                    {func(h deployments) { h.OnUpdate(childOf(), childOf(newVersion, spec)) }, false, map[string]urgency{"bank/shop": now}},
		"its spec, by ourselves":      {func(h deployments) { h.OnUpdate(childOf(), childOf(newVersion, spec)) }, true, nil},
		"it goes":                     {func(h deployments) { h.OnDelete(deleted(childOf())) }, false, map[string]urgency{"bank/shop": now}},
		"it went unseen": {func(h deployments) {
			h.OnDelete(cache.DeletedObject[*appsv1.Deployment]{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "bank/" + childName}})
		}, false, nil},
		"it changes hands: both are woken": {
			func(h deployments) { h.OnUpdate(childOf(), childOf(newVersion, till)) }, false, map[string]urgency{"bank/shop": now, "bank/till": now},
		},
		"its owner reference is taken off": {
			func(h deployments) { h.OnUpdate(childOf(), childOf(newVersion, nobody)) }, false, map[string]urgency{"bank/shop": now},
		},
		"its owner reference is put on": {
			func(h deployments) { h.OnUpdate(childOf(nobody), childOf(newVersion)) }, false, map[string]urgency{"bank/shop": now},
		},
		"nobody owns it": {func(h deployments) { h.OnAdd(childOf(nobody), false) }, false, nil},
		"an owner among others that does not control it": {
			func(h deployments) {
				h.OnAdd(childOf(owner(func(o *metav1.OwnerReference) { o.Controller = nil })), false)
			}, false, nil,
		},
		"an owner of another kind": {
			func(h deployments) {
				h.OnAdd(childOf(owner(func(o *metav1.OwnerReference) { o.Kind = "Rollout" })), false)
			}, false, nil,
		},
		"an owner of the same kind of another group": {
			func(h deployments) {
				h.OnAdd(childOf(owner(func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1" })), false)
			}, false, nil,
		},
		"an owner of the kind's next version": {
			func(h deployments) {
				h.OnAdd(childOf(owner(func(o *metav1.OwnerReference) { o.APIVersion = "formspec.dev/v1" })), false)
			},
			false,
			map[string]urgency{"bank/shop": soon},
		},
		"an earlier workspace of the name": {
			func(h deployments) {
				h.OnAdd(childOf(owner(func(o *metav1.OwnerReference) { o.UID = "uid-of-an-earlier-shop" })), false)
			}, false, nil,
		},
		"a workspace that is gone": {
			func(h deployments) {
				h.OnAdd(childOf(owner(func(o *metav1.OwnerReference) { o.Name = "gone" })), false)
			}, false, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			more := aWorkspace(func(ws *v1alpha1.Workspace) { ws.Name, ws.UID = "till", "uid-of-till" })
			quietly(t, []runtime.Object{aWorkspace(), more}, func(f *fixture) {
				if row.ours {
					f.memory.Wrote(shop, &version{"7"}, "8")
				}
				got := f.wakes(func() { row.do(f.deploymentHandler()) })
				if len(got) != len(row.want) {
					f.t.Errorf("woken %v, want %v", got, row.want)
				}
				for key, u := range row.want {
					if got[key] != u {
						f.t.Errorf("%s is woken %v, want %v", key, got[key], u)
					}
				}
			})
		})
	}
}

func TestWhatMetadataMatters(t *testing.T) {
	before := metav1.ObjectMeta{UID: "uid", Generation: 1, ResourceVersion: "7", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}
	for name, row := range map[string]struct {
		change func(*metav1.ObjectMeta)
		want   bool
	}{
		"nothing":               {func(*metav1.ObjectMeta) {}, false},
		"the version":           {func(m *metav1.ObjectMeta) { m.ResourceVersion = "8" }, false},
		"the fields' managers":  {func(m *metav1.ObjectMeta) { m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}} }, false},
		"an empty map for none": {func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{} }, false},
		"the generation":        {func(m *metav1.ObjectMeta) { m.Generation = 2 }, true},
		"the UID":               {func(m *metav1.ObjectMeta) { m.UID = "next" }, true},
		"a label's value":       {func(m *metav1.ObjectMeta) { m.Labels["a"] = "x" }, true},
		"a label less":          {func(m *metav1.ObjectMeta) { m.Labels = nil }, true},
		"an annotation more":    {func(m *metav1.ObjectMeta) { m.Annotations["x"] = "y" }, true},
		"an owner":              {func(m *metav1.ObjectMeta) { m.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, true},
		"a deletion":            {func(m *metav1.ObjectMeta) { m.DeletionTimestamp = new(metav1.Now()) }, true},
	} {
		after := before.DeepCopy()
		row.change(after)
		if got := metadataChanged(&before, after); got != row.want {
			t.Errorf("%s: matters %v, want %v", name, got, row.want)
		}
	}
}

func TestHowSoonAnAutoscalerIsLookedAt(t *testing.T) {
	autoscaler := func(changes ...func(*autoscalingv2.HorizontalPodAutoscaler)) *autoscalingv2.HorizontalPodAutoscaler {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: ptr.To[int32](2), MaxReplicas: 10},
			Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 2, Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{
				{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue, Reason: "ValidMetricFound"},
			}},
		}
		for _, change := range changes {
			change(hpa)
		}
		return hpa
	}
	for name, row := range map[string]struct {
		change func(*autoscalingv2.HorizontalPodAutoscaler)
		want   urgency
	}{
		"nothing":               {func(*autoscalingv2.HorizontalPodAutoscaler) {}, never},
		"its metrics":           {func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Status.CurrentReplicas = 3 }, never},
		"it cannot compute":     {func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Status.Conditions[0].Status = corev1.ConditionFalse }, soon},
		"it has another reason": {func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Status.Conditions[0].Reason = "ScalingDisabled" }, soon},
		"it says nothing more":  {func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Status.Conditions = nil }, soon},
		"its spec":              {func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Generation, h.Spec.MaxReplicas = 1, 99 }, now},
		"its spec, on a cluster whose autoscalers have no generation": {
			func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MaxReplicas = 99 }, now,
		},
		"a label": {func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Labels = map[string]string{"a": "b"} }, now},
	} {
		if got := autoscalerUrgency(autoscaler(), autoscaler(row.change)); got != row.want {
			t.Errorf("%s: looked at %v, want %v", name, got, row.want)
		}
	}
}

func TestHowSoonABudgetIsLookedAt(t *testing.T) {
	before := &policyv1.PodDisruptionBudget{}
	for name, row := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		want   urgency
	}{
		"its status": {func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }, never},
		"its spec":   {func(b *policyv1.PodDisruptionBudget) { b.Generation++ }, now},
	} {
		after := before.DeepCopy()
		row.change(after)
		if got := disruptionBudgetUrgency(before, after); got != row.want {
			t.Errorf("%s: looked at %v, want %v", name, got, row.want)
		}
	}
	if got := anyChange(&corev1.Service{}, &corev1.Service{}); got != now {
		t.Errorf("a kind without status is looked at %v, want now", got)
	}
}

// A slot is held until both the Workspace and its Deployment are gone, in whichever order they go.
func TestASlotIsGivenBackWhenTheLastOfTheTwoIsGone(t *testing.T) {
	admitted := aWorkspace(func(ws *v1alpha1.Workspace) { ws.Status.AdmittedClass = "standard" })
	gone := cache.DeletedObject[*v1alpha1.Workspace]{OptionalObj: admitted}
	ended := cache.DeletedObject[*appsv1.Deployment]{OptionalObj: childOf()}
	held := func(ledger *admission.Ledger) bool { return ledger.Held("uid-of-shop") != "" }

	t.Run("the workspace goes and its Deployment still ends", func(t *testing.T) {
		child := childOf(func(d *appsv1.Deployment) { d.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy} })
		quietly(t, []runtime.Object{child}, func(f *fixture) {
			f.ledger.Observe(admitted)
			f.workspaceHandler().OnDelete(gone)
			if !held(f.ledger) {
				f.t.Error("the slot is free while the Deployment still runs")
			}
			f.deploymentHandler().OnDelete(ended)
			if held(f.ledger) {
				f.t.Error("the slot is held for nobody")
			}
			f.woken()
		})
	})
	t.Run("the workspace goes after its Deployment", func(t *testing.T) {
		quietly(t, []runtime.Object{admitted}, func(f *fixture) {
			f.deploymentHandler().OnDelete(ended)
			if !held(f.ledger) {
				f.t.Error("the slot is free while the workspace still is there")
			}
			f.workspaceHandler().OnDelete(gone)
			if held(f.ledger) {
				f.t.Error("the slot is held for nobody")
			}
			f.woken()
		})
	})
}
