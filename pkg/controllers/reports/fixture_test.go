// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsfake "k8s.io/metrics/pkg/client/clientset/versioned/fake"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"
	"github.com/formspec/formspec-operator/pkg/controllers/trim"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

const (
	ownNamespace = "formspec-system"
	interval     = 5 * time.Minute
)

// mailbox is a Reporter that keeps what it is handed. It settles when it is told to.
type mailbox struct {
	mu            sync.Mutex
	beats         [][]clustercontrol.NodeReport
	registrations []string
	statuses      []clustercontrol.StatusRecord
	usage         []clustercontrol.UsageRecord
	forgotten     []string
	accepts       chan struct{} // closed while everything is accepted

	unsentRegistrations []clustercontrol.ID
	unsentStatuses      []clustercontrol.StatusRecord
	unsentUsage         []clustercontrol.UsageRecord
}

func newMailbox() *mailbox {
	m := &mailbox{accepts: make(chan struct{})}
	close(m.accepts)
	return m
}

func (m *mailbox) with(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

func (m *mailbox) Register(r clustercontrol.Registration) {
	m.with(func() { m.registrations = append(m.registrations, fmt.Sprintf("%s %s %s", r.Action, r.Kind, r.ID)) })
}

func (m *mailbox) Health(reports []clustercontrol.NodeReport) {
	m.with(func() { m.beats = append(m.beats, reports) })
}

func (m *mailbox) Metering(records []clustercontrol.UsageRecord) {
	m.with(func() { m.usage = append(m.usage, records...) })
}

func (m *mailbox) Status(r clustercontrol.StatusRecord) {
	m.with(func() { m.statuses = append(m.statuses, r) })
}
func (m *mailbox) Run(ctx context.Context) { <-ctx.Done() }
func (m *mailbox) Flush() error            { return nil }
func (m *mailbox) Wait(ctx context.Context, _ clustercontrol.Endpoint) error {
	m.mu.Lock()
	accepts := m.accepts
	m.mu.Unlock()
	select {
	case <-accepts:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (m *mailbox) UnsentRegistrations() []clustercontrol.ID      { return m.unsentRegistrations }
func (m *mailbox) UnsentStatuses() []clustercontrol.StatusRecord { return m.unsentStatuses }
func (m *mailbox) UnsentUsage() []clustercontrol.UsageRecord     { return m.unsentUsage }
func (m *mailbox) ForgetUsage(key string)                        { m.with(func() { m.forgotten = append(m.forgotten, key) }) }

// snapshot is a copy of what it has.
func (m *mailbox) snapshot() (c struct {
	beats         [][]clustercontrol.NodeReport
	registrations []string
	statuses      []clustercontrol.StatusRecord
	usage         []clustercontrol.UsageRecord
	forgotten     []string
},
) {
	m.with(func() {
		c.beats, c.registrations, c.statuses = slices.Clone(m.beats), slices.Clone(m.registrations), slices.Clone(m.statuses)
		c.usage, c.forgotten = slices.Clone(m.usage), slices.Clone(m.forgotten)
	})
	return c
}

// away lets nothing be accepted until back is called.
func (m *mailbox) away() (back func()) {
	accepts := make(chan struct{})
	m.with(func() { m.accepts = accepts })
	return func() { close(accepts) }
}

// world is a cluster with one replica of the operator, in a bubble. Its clock starts at midnight UTC, 2000-01-01.
type world struct {
	*mailbox
	t        *testing.T
	kube     *kubefake.Clientset
	formspec *formspecfake.Clientset
	metrics  *metricsfake.Clientset
	sampler  *Sampler
	leader   *Leader
	loop     *Statuses
	polled   func(after int64, take clustercontrol.Take) // nil: nobody asks for restarts

	interval time.Duration // of metering
	dir      string        // of the outbox
	outbox   *outbox.Outbox

	millicores atomic.Int64 // of each pod and node
	broken     atomic.Bool  // the metrics API
	readings   atomic.Int32

	factories []factory
	stop      func()
}

type factory interface {
	StartWithContext(ctx context.Context)
	Shutdown()
}

func inWorld(t *testing.T, objects []runtime.Object, do func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, objects)
		w.start()
		defer w.kill()
		do(t, w)
	})
}

// kill ends the replica, which has no moment to save anything. All its goroutines end, as the bubble asks.
func (w *world) kill() {
	w.stop()
	w.loop.queue.ShutDown()
	for _, f := range w.factories {
		f.Shutdown()
	}
	synctest.Wait()
	w.outbox.Close()
}

func newWorld(t *testing.T, objects []runtime.Object) *world {
	t.Helper()
	var builtIn, own []runtime.Object
	for _, object := range objects { // which were made outside the bubble
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		accessor.SetCreationTimestamp(metav1.Now())
		switch object := object.(type) {
		case *corev1.Pod:
			object.Status.StartTime = new(metav1.Now())
			builtIn = append(builtIn, object)
		case *v1alpha1.Workspace, *v1alpha1.Datastore, *v1alpha1.ResourceClaim:
			own = append(own, object)
		default:
			builtIn = append(builtIn, object)
		}
	}
	w := &world{
		mailbox: newMailbox(), t: t, kube: kubefake.NewClientset(builtIn...), formspec: formspecfake.NewClientset(own...),
		metrics: metricsfake.NewSimpleClientset(), interval: interval, dir: t.TempDir(),
	}
	w.millicores.Store(100)
	w.metrics.PrependReactor("list", "*", w.readUsage)
	return w
}

// start starts the replica, with what one before it has left in the outbox.
func (w *world) start() {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	w.stop = stop
	nodes := kubeinformers.NewSharedInformerFactoryWithOptions(w.kube, 0, kubeinformers.WithTransform(trim.Node))
	children := kubeinformers.NewSharedInformerFactoryWithOptions(w.kube, 0, kubeinformers.WithTransform(trim.Children()))
	kinds := formspecinformers.NewSharedInformerFactory(w.formspec, 0)
	scopes := []Scope{{
		Workspaces: kinds.Formspec().V1alpha1().Workspaces(), Datastores: kinds.Formspec().V1alpha1().Datastores(),
		Claims: kinds.Formspec().V1alpha1().ResourceClaims(), Deployments: children.Apps().V1().Deployments(), Pods: children.Core().V1().Pods(),
	}}
	var err error
	w.outbox, err = outbox.Open(ctx, outbox.Options{Dir: w.dir})
	w.must(err)
	w.sampler, err = NewSampler(SamplerConfig{
		Scopes: scopes, Nodes: nodes.Core().V1().Nodes(), Usage: w.metrics, Interval: w.interval,
		Saver: metering.NewSaver(w.outbox.Shelf("readings"), w.outbox.Shelf("lives")), Flush: w.outbox.Flush, Clock: clock.RealClock{},
	})
	w.must(err)
	w.leader, err = NewLeader(ctx, LeaderConfig{
		Cluster: "jkt", Namespace: ownNamespace, Interval: w.interval, Scopes: scopes, Sampler: w.sampler, Reporter: w.mailbox,
		Poll: func(ctx context.Context, after int64, take clustercontrol.Take) {
			if w.polled != nil {
				w.polled(after, take)
			}
			<-ctx.Done()
		},
		Restarts: func(context.Context, clustercontrol.Batch) error { return nil },
		Read:     w.kube, Write: w.kube, Clock: clock.RealClock{},
	})
	w.must(err)
	w.loop, err = NewStatuses(ctx, StatusesConfig{Scopes: scopes, Reporter: w.mailbox, Clock: clock.RealClock{}})
	w.must(err)
	w.factories = []factory{nodes, children, kinds}
	for _, f := range w.factories {
		f.StartWithContext(ctx)
	}
	synctest.Wait()
	go w.sampler.Run(ctx)
	synctest.Wait()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// leads runs what the leader runs, until the function that it returns is called.
func (w *world) leads() (resign func()) {
	ctx, stop := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.leader.Run(ctx, 1) })
	wg.Go(func() { _ = w.loop.Run(ctx, 1) })
	synctest.Wait()
	return func() {
		stop()
		wg.Wait()
	}
}

// pass lets time go by.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in the bubble's time
	synctest.Wait()
}

// readUsage is the metrics API: everything uses as much.
func (w *world) readUsage(action clienttesting.Action) (bool, runtime.Object, error) {
	w.readings.Add(1)
	if w.broken.Load() {
		return true, nil, errors.New("no such API")
	}
	usage := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(w.millicores.Load(), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Mi")}
	if action.GetResource().Resource == "nodes" {
		list := &metricsv1beta1.NodeMetricsList{}
		nodes, err := w.kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
		for i := range nodes.Items {
			list.Items = append(list.Items, metricsv1beta1.NodeMetrics{ObjectMeta: metav1.ObjectMeta{Name: nodes.Items[i].Name}, Timestamp: metav1.Now(), Usage: usage})
		}
		return true, list, err
	}
	list := &metricsv1beta1.PodMetricsList{}
	pods, err := w.kube.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	for i := range pods.Items {
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: pods.Items[i].Namespace, Name: pods.Items[i].Name, Labels: pods.Items[i].Labels},
			Timestamp:  metav1.Now(),
			Containers: []metricsv1beta1.ContainerMetrics{{Name: "app", Usage: usage}},
		})
	}
	return true, list, err
}

func aWorkspace(name string, changes ...func(*v1alpha1.Workspace)) *v1alpha1.Workspace {
	ws := &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now()},
		Status:     v1alpha1.WorkspaceStatus{Phase: v1alpha1.PhaseReady, ReadyReplicas: 1, ObservedGeneration: 1},
	}
	for _, change := range changes {
		change(ws)
	}
	return ws
}

func aPod(name, workspace, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now(),
			Labels: map[string]string{v1alpha1.LabelWorkspace: names.Label(workspace), v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.Now())},
	}
}

func aNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now(), Labels: map[string]string{"formspec.dev/tier": "shared"}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		},
	}
}

func aDeployment(workspace *v1alpha1.Workspace, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: names.Deployment(workspace.Name), UID: types.UID("uid-d-" + workspace.Name),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(workspace, v1alpha1.SchemeGroupVersion.WithKind("Workspace"))},
		},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func aDatastore(name string, driver v1alpha1.Driver) *v1alpha1.Datastore {
	return &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: name, UID: types.UID("uid-" + name)}, Spec: v1alpha1.DatastoreSpec{Driver: driver},
		Status: v1alpha1.DatastoreStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionValidated, Status: metav1.ConditionTrue}}},
	}
}
