// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
	"github.com/formspec/formspec-operator/pkg/controllers/grants"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// caches is a controller whose caches and events the test decides.
type caches struct {
	*testing.T
	*Controller
	client      *kubefake.Clientset
	workspaces  cache.Indexer
	deployments cache.Indexer
}

func newCaches(t *testing.T) *caches {
	t.Helper()
	own := formspecinformers.NewSharedInformerFactory(formspecfake.NewClientset(), 0)
	client := kubefake.NewClientset()
	children := kubeinformers.NewSharedInformerFactory(client, 0)
	kinds := own.Formspec().V1alpha1()
	keys := ownerkeys.New(client, "formspec-system")
	controller, err := New(t.Context(), Config{
		Client:            client,
		EndpointSlices:    children.Discovery().V1().EndpointSlices(),
		Workspaces:        kinds.Workspaces(),
		ClusterClasses:    kinds.ClusterClasses(),
		Datastores:        kinds.Datastores(),
		Claims:            kinds.ResourceClaims(),
		Judge:             grants.NewJudge(keys, resourceclaim.Settings{}, kinds.ResourceClaims(), kinds.Datastores(), kinds.Workspaces()),
		Deployments:       children.Apps().V1().Deployments(),
		Services:          children.Core().V1().Services(),
		ConfigMaps:        children.Core().V1().ConfigMaps(),
		Secrets:           children.Core().V1().Secrets(),
		Pods:              children.Core().V1().Pods(),
		Autoscalers:       children.Autoscaling().V2().HorizontalPodAutoscalers(),
		DisruptionBudgets: children.Policy().V1().PodDisruptionBudgets(),
		Ledger:            admission.NewLedger(),
		Recorder:          events.NewFakeRecorder(100),
		Clock:             clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(controller.queue.ShutDown)
	return &caches{
		T: t, Controller: controller, client: client,
		workspaces:  own.Formspec().V1alpha1().Workspaces().Informer().GetIndexer(),
		deployments: children.Apps().V1().Deployments().Informer().GetIndexer(),
	}
}

func (c *caches) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// waiting is a Workspace of the class "std", created that many seconds after the others.
func waiting(name string, uid types.UID, age int) *v1alpha1.Workspace {
	return &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, UID: uid, Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Date(2026, 7, 10, 10, 0, age, 0, time.UTC)),
		},
		Spec: v1alpha1.WorkspaceSpec{ClusterClass: "std"},
	}
}

func (c *caches) appears(workspaces ...*v1alpha1.Workspace) {
	c.Helper()
	for _, ws := range workspaces {
		c.must(c.workspaces.Add(ws))
		c.workspaceHandler().OnAdd(ws, false)
	}
}

func (c *caches) changes(old, cur *v1alpha1.Workspace) {
	c.Helper()
	c.must(c.workspaces.Update(cur))
	c.workspaceHandler().OnUpdate(old, cur)
}

func (c *caches) disappears(ws *v1alpha1.Workspace) {
	c.Helper()
	c.must(c.workspaces.Delete(ws))
	c.workspaceHandler().OnDelete(cache.DeletedObject[*v1alpha1.Workspace]{OptionalObj: ws})
}

// deployed makes the Deployment of a Workspace.
func (c *caches) deployed(ws *v1alpha1.Workspace) *appsv1.Deployment {
	c.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: ws.Namespace, Name: names.Deployment(ws.Name), UID: "deployment of " + ws.UID,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Workspace", Name: ws.Name, UID: ws.UID, Controller: new(true),
		}},
	}}
	c.must(c.deployments.Add(d))
	c.deploymentHandler().OnAdd(d, false)
	return d
}

func (c *caches) held(want int) {
	c.Helper()
	if got := c.ledger.Admitted("std"); got != want {
		c.Errorf("%d slots are held, want %d", got, want)
	}
}

// std is the class, with one slot.
func std() *v1alpha1.ClusterClass {
	return &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: "std", Generation: 1}, Spec: v1alpha1.ClusterClassSpec{MaxWorkspaces: 1}}
}

// A Workspace that cannot run gives up its place, and its own status must not put it back: nothing would take it out again.
func TestAStatusDoesNotPutAWorkspaceIntoTheLine(t *testing.T) {
	c := newCaches(t)
	a, b := waiting("a", "a", 1), waiting("b", "b", 2)
	c.appears(a, b)
	c.ledger.Withdraw(a)
	told := a.DeepCopy()
	told.ResourceVersion, told.Status.ObservedGeneration = "2", 1
	c.changes(a, told)
	if !c.ledger.Enter(b, std()) {
		t.Error("the one that cannot run holds the next one up")
	}
}

func TestANewSpecPutsAWorkspaceIntoTheLine(t *testing.T) {
	c := newCaches(t)
	a, b := waiting("a", "a", 1), waiting("b", "b", 2)
	c.appears(a, b)
	c.ledger.Withdraw(a)
	mended := a.DeepCopy()
	mended.Generation = 2
	c.changes(a, mended)
	if c.ledger.Enter(b, std()) {
		t.Error("the younger one got the slot")
	}
}

// Without its class nobody can run; once it comes, the oldest is first, whoever asks first.
func TestANewClassPutsEveryWorkspaceIntoTheLine(t *testing.T) {
	for name, event := range map[string]func(cache.TypedResourceEventHandler[*v1alpha1.ClusterClass]){
		"it is created": func(h cache.TypedResourceEventHandler[*v1alpha1.ClusterClass]) { h.OnAdd(std(), false) },
		"it is mended": func(h cache.TypedResourceEventHandler[*v1alpha1.ClusterClass]) {
			mended := std()
			mended.Generation = 2
			h.OnUpdate(std(), mended)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			a, b := waiting("a", "a", 1), waiting("b", "b", 2)
			c.appears(a, b)
			c.ledger.Withdraw(a)
			c.ledger.Withdraw(b)
			event(c.classHandler())
			if c.ledger.Enter(b, std()) {
				t.Error("the younger one got the slot")
			}
			if !c.ledger.Enter(a, std()) {
				t.Error("the oldest one got no slot")
			}
		})
	}
}

// A slot is given back when both the Workspace and its Deployment are gone, in whichever order that becomes known.
func TestASlotIsGivenBackOnce(t *testing.T) {
	successor := func(ws *v1alpha1.Workspace) *v1alpha1.Workspace { return waiting(ws.Name, "successor", 9) }
	for name, story := range map[string]func(*caches, *v1alpha1.Workspace, *appsv1.Deployment){
		"the Workspace goes first": func(c *caches, ws *v1alpha1.Workspace, d *appsv1.Deployment) {
			c.disappears(ws)
			c.held(1)
			c.must(c.deployments.Delete(d))
			c.deploymentHandler().OnDelete(cache.DeletedObject[*appsv1.Deployment]{OptionalObj: d})
		},
		"the Deployment goes first": func(c *caches, ws *v1alpha1.Workspace, d *appsv1.Deployment) {
			c.must(c.deployments.Delete(d))
			c.deploymentHandler().OnDelete(cache.DeletedObject[*appsv1.Deployment]{OptionalObj: d})
			c.held(1)
			c.disappears(ws)
		},
		"the Deployment is orphaned, which is known late": func(c *caches, ws *v1alpha1.Workspace, d *appsv1.Deployment) {
			c.disappears(ws)
			c.held(1)
			orphan := d.DeepCopy()
			orphan.OwnerReferences = nil
			c.must(c.deployments.Update(orphan))
			c.deploymentHandler().OnUpdate(d, orphan)
		},
		"the Deployment is orphaned, which is known early": func(c *caches, ws *v1alpha1.Workspace, d *appsv1.Deployment) {
			orphan := d.DeepCopy()
			orphan.OwnerReferences = nil
			c.must(c.deployments.Update(orphan))
			c.deploymentHandler().OnUpdate(d, orphan)
			c.held(1)
			c.disappears(ws)
		},
		"an outage hides that the Workspace is another": func(c *caches, ws *v1alpha1.Workspace, d *appsv1.Deployment) {
			c.must(c.deployments.Delete(d))
			c.deploymentHandler().OnDelete(cache.DeletedObject[*appsv1.Deployment]{OptionalObj: d})
			c.changes(ws, successor(ws))
		},
		"an outage hides that the Deployment is another's": func(c *caches, ws *v1alpha1.Workspace, d *appsv1.Deployment) {
			c.changes(ws, successor(ws))
			c.held(1)
			another := d.DeepCopy()
			another.UID, another.OwnerReferences[0].UID = "another", "successor"
			c.must(c.deployments.Update(another))
			c.deploymentHandler().OnUpdate(d, another)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			ws := waiting("shop", "shop", 1)
			c.appears(ws)
			if !c.ledger.Enter(ws, std()) {
				t.Fatal("the only Workspace got no slot")
			}
			story(c, ws, c.deployed(ws))
			c.held(0)
		})
	}
}

func TestOnlyALivingWorkspaceIsWokenForASlot(t *testing.T) {
	c := newCaches(t)
	a, b := waiting("a", "a", 1), waiting("b", "b", 2)
	c.appears(a)
	for c.queue.Len() > 0 {
		key, _ := c.queue.Get()
		c.queue.Done(key)
	}
	c.SlotFreed(cache.MetaObjectToName(a))
	c.SlotFreed(cache.MetaObjectToName(b))
	var woken []string
	for c.queue.Len() > 0 {
		key, _ := c.queue.Get()
		c.queue.Done(key)
		woken = append(woken, key.Name)
	}
	if !slices.Equal(woken, []string{"a"}) {
		t.Errorf("woke %q, want a", woken)
	}
}

// A child that the cache lost sight of comes back whole by our own write, whose event wakes nobody: its status must be read all the same.
func TestAChildThatExistedIsLookedAtAgain(t *testing.T) {
	for name, existed := range map[string]bool{"a new child": false, "a child that was there": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCaches(t)
				ws := waiting("shop", "shop", 1)
				d := c.deployed(ws)
				if existed {
					c.must(c.client.Tracker().Add(d))
				}
				c.client.PrependReactor("patch", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
					created := strings.Contains(string(action.(clienttesting.PatchAction).GetPatch()), `"resourceVersion":"1"`)
					return existed && created, d, apierrors.NewConflict(appsv1.Resource("deployments"), d.Name, errors.New("it is there"))
				})
				write := reconcile.Write{Create: true, Config: appsv1ac.Deployment(d.Name, d.Namespace)}
				c.must(c.apply(t.Context(), cache.MetaObjectToName(ws), ws.UID, write, func(metav1.Object) bool { return true }))
				<-time.After(batch)
				synctest.Wait()
				if woken := c.queue.Len() == 1; woken != existed {
					t.Errorf("looked at again: %v, want %v", woken, existed)
				}
			})
		})
	}
}
