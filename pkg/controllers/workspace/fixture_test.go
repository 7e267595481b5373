// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/activity"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
	"github.com/formspec/formspec-operator/pkg/controllers/grants"
	"github.com/formspec/formspec-operator/pkg/controllers/ownerkeys"
	"github.com/formspec/formspec-operator/pkg/controllers/restarts"
	"github.com/formspec/formspec-operator/pkg/controllers/trim"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

var shop = cache.NewObjectName("bank", "shop")

const childName = "formspec-resource-shop"

var (
	workspacesResource  = v1alpha1.SchemeGroupVersion.WithResource("workspaces")
	classesResource     = v1alpha1.SchemeGroupVersion.WithResource("clusterclasses")
	deploymentsResource = appsv1.SchemeGroupVersion.WithResource("deployments")
	servicesResource    = corev1.SchemeGroupVersion.WithResource("services")
	configMapsResource  = corev1.SchemeGroupVersion.WithResource("configmaps")
	secretsResource     = corev1.SchemeGroupVersion.WithResource("secrets")
	budgetsResource     = policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")
	slicesResource      = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	leasesResource      = coordinationv1.SchemeGroupVersion.WithResource("leases")
	autoscalersResource = autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers")
)

// aWorkspace is "shop" of the class "standard", as a user has just made it.
func aWorkspace(changes ...func(*v1alpha1.Workspace)) *v1alpha1.Workspace {
	ws := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "shop", UID: "uid-of-shop", Generation: 1},
		Spec:       v1alpha1.WorkspaceSpec{ClusterClass: "standard"},
	}
	for _, change := range changes {
		change(ws)
	}
	return ws
}

// aClass is "standard", whose workspaces have every child.
func aClass(changes ...func(*v1alpha1.ClusterClass)) *v1alpha1.ClusterClass {
	class := &v1alpha1.ClusterClass{
		ObjectMeta: metav1.ObjectMeta{Name: "standard", Generation: 1},
		Spec: v1alpha1.ClusterClassSpec{
			Features: []string{v1alpha1.FeatureAutoScaling},
			Scaling:  v1alpha1.ClusterClassScaling{MinReplicas: 2},
		},
	}
	for _, change := range changes {
		change(class)
	}
	return class
}

// fixture is a controller over a server, its caches in step. It lives in a synctest bubble.
type fixture struct {
	*server
	*Controller
	t      *testing.T
	desk   *restarts.Desk
	events []string // since the last time they were looked at
	cutOff func()   // ends the informers: the caches stay as they are
}

// run gives the test a fixture in a bubble. The controller's workers do not run: a test calls sync.
func run(t *testing.T, objects []runtime.Object, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fixture{server: newServer(objects...), t: t, desk: restarts.NewDesk()}
		own := formspecinformers.NewSharedInformerFactoryWithOptions(f.server.formspec, 0, formspecinformers.WithTransform(trim.Own))
		children := kubeinformers.NewSharedInformerFactoryWithOptions(f.kube, 0,
			kubeinformers.WithTransform(trim.Children(Name, "formspec-datastore", "formspec-resourceclaim")),
			kubeinformers.WithTweakListOptions(func(o *metav1.ListOptions) {
				o.LabelSelector = v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy
			}))
		kinds := own.Formspec().V1alpha1()
		keys := ownerkeys.New(f.kube, "formspec-system")
		judge := grants.NewJudge(keys, resourceclaim.Settings{}, kinds.ResourceClaims(), kinds.Datastores(), kinds.Workspaces())
		requests, err := activity.New(ctx, f.kube, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(ctx, Config{
			Activity: requests, EndpointSlices: children.Discovery().V1().EndpointSlices(),
			Client: f.kube, FormSpec: f.server.formspec,
			Workspaces: kinds.Workspaces(), ClusterClasses: kinds.ClusterClasses(), Datastores: kinds.Datastores(), Claims: kinds.ResourceClaims(),
			Deployments: children.Apps().V1().Deployments(), Services: children.Core().V1().Services(),
			ConfigMaps: children.Core().V1().ConfigMaps(), Secrets: children.Core().V1().Secrets(), Pods: children.Core().V1().Pods(),
			Autoscalers: children.Autoscaling().V2().HorizontalPodAutoscalers(), DisruptionBudgets: children.Policy().V1().PodDisruptionBudgets(),
			Ledger: admission.NewLedger(), Judge: judge, Restarts: f.desk, Recorder: f, Clock: clock.RealClock{},
			Settings: workspace.Settings{
				ClusterName: "jkt-1", Image: "formahub/formspec-resource:1.4.2",
				ScaleToZero: workspace.ModeActivator, IdleAfter: 5 * time.Minute, WakeDeadline: time.Minute,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Controller = c
		f.cutOff = func() {
			cancel()
			own.Shutdown()
			children.Shutdown()
		}
		defer f.cutOff()
		defer c.queue.ShutDown()
		own.StartWithContext(ctx)
		children.StartWithContext(ctx)
		requests.Start(ctx)
		if !cache.WaitFor(ctx, "", append(requests.Synced(), c.synced...)...) {
			t.Fatal("the handlers have not seen the first lists")
		}
		synctest.Wait()
		f.sent()
		test(f)
	})
}

// Eventf makes the fixture an event recorder.
func (f *fixture) Eventf(_, _ runtime.Object, eventType, reason, _, _ string, _ ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, eventType+" "+reason)
}

// syncOnce runs one sync and lets the caches catch up. What was in the caches before must be as it was.
func (f *fixture) syncOnce() (time.Duration, error) {
	f.t.Helper()
	synctest.Wait()
	unchanged := f.freeze()
	after, err := f.sync(f.t.Context(), shop)
	unchanged()
	synctest.Wait()
	return after, err
}

// freeze returns what reports cached objects that were changed since.
func (f *fixture) freeze() (report func()) {
	type frozen struct{ cached, copied runtime.Object }
	var all []frozen
	for _, store := range f.stores {
		for _, object := range store.(cache.Store).List() {
			cached := object.(runtime.Object)
			all = append(all, frozen{cached, cached.DeepCopyObject()})
		}
	}
	return func() {
		f.t.Helper()
		for _, o := range all {
			if !equality.Semantic.DeepEqual(o.cached, o.copied) {
				f.t.Errorf("the sync changed a cached object:\n%+v\n%+v", o.copied, o.cached)
			}
		}
	}
}

// settle syncs until nothing is written any more, and forgets what was written and told.
func (f *fixture) settle() {
	f.t.Helper()
	for range 5 {
		if _, err := f.syncOnce(); err != nil {
			f.t.Fatal(err)
		}
		if len(f.sent()) == 0 {
			f.events = nil
			f.woken()
			return
		}
	}
	f.t.Fatal("the workspace never comes to rest")
}

// expectRequests compares what was sent since the last time.
func (f *fixture) expectRequests(want ...string) {
	f.t.Helper()
	if got := f.sent(); !slices.Equal(got, want) {
		f.t.Errorf("requests\n got %q\nwant %q", got, want)
	}
}

// expectReady compares the condition Ready that is on the server.
func (f *fixture) expectReady(status metav1.ConditionStatus, reason string) {
	f.t.Helper()
	ws, _ := live(f.server.formspec.Tracker(), workspacesResource, "bank", "shop").(*v1alpha1.Workspace)
	if ws == nil {
		f.t.Fatal("there is no workspace")
	}
	for _, c := range ws.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			if c.Status != status || c.Reason != reason {
				f.t.Errorf("Ready is %s %s %q, want %s %s", c.Status, c.Reason, c.Message, status, reason)
			}
			return
		}
	}
	f.t.Errorf("there is no condition Ready, want %s %s", status, reason)
}

// expectEvents compares what was told since the last time.
func (f *fixture) expectEvents(want ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.events, want) {
		f.t.Errorf("events %q, want %q", f.events, want)
	}
	f.events = nil
}

// add is what a user creates.
func (f *fixture) add(object runtime.Object) {
	f.t.Helper()
	m, err := meta.Accessor(object)
	if err != nil {
		f.t.Fatal(err)
	}
	if m.SetResourceVersion(f.next()); m.GetUID() == "" {
		m.SetUID(types.UID("uid-of-" + m.GetName()))
	}
	if err := f.server.formspec.Tracker().Add(object); err != nil {
		f.t.Fatal(err)
	}
}

// woken are the keys that are in the queue now, which is empty afterwards.
func (f *fixture) woken() []string {
	var keys []string
	for f.queue.Len() > 0 {
		key, _ := f.queue.Get()
		f.queue.Done(key)
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	return keys
}

// rolledOut is what the Deployment's own controller reports of a complete rollout.
func (f *fixture) rolledOut(replicas int32) {
	f.t.Helper()
	change(f, deploymentsResource, childName, false, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}},
		}
	})
}
