// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/klog/v2"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclientset "k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

const (
	// sampleInterval is how often usage is read. metrics-server has new figures as often.
	sampleInterval = 15 * time.Second
	// sampleRetry is how soon a metrics API that does not answer is asked again.
	sampleRetry = time.Minute
	// sampleTimeout bounds one reading of everything.
	sampleTimeout = 10 * time.Second
	// sampleReach is how far back samples go at most, for a leader that follows an outage.
	sampleReach = 2 * time.Hour
)

// SamplerConfig is what a Sampler is made from. Every field but Saver, Flush and Metrics is needed.
type SamplerConfig struct {
	Scopes []Scope
	Nodes  coreinformers.TypedNodeInformer
	Usage  metricsclientset.Interface
	// Interval of metering.
	Interval time.Duration
	// Saver keeps the samples over a crash, and Flush writes what it was given to the disk. Nil: they end with the process.
	Saver   *metering.Saver
	Flush   func() error
	Clock   clock.WithTicker
	Metrics *Metrics
}

// Sampler knows who lived when and used how much. Every replica has one.
type Sampler struct {
	scopes   scopes
	nodes    coreinformers.TypedNodeInformer
	usage    metricsclientset.Interface
	interval time.Duration
	clock    clock.WithTicker
	metrics  *Metrics
	flush    func() error
	started  time.Time // or an earlier process, whose samples are here
	down     bool      // the metrics API; said already

	mu     sync.Mutex
	saver  *metering.Saver
	book   *metering.Book
	owners map[types.UID]types.UID     // the Workspace of each pod, which a pod outlives
	newest map[string]metering.Reading // of each node, by name
	kept   time.Time                   // slots that end by then are not asked for any more
}

// NewSampler must be called before the informers start. It does nothing before Run.
func NewSampler(config SamplerConfig) (*Sampler, error) {
	s := &Sampler{
		scopes: config.Scopes, nodes: config.Nodes, usage: config.Usage, interval: config.Interval, clock: config.Clock, metrics: config.Metrics,
		saver: config.Saver, flush: config.Flush, started: config.Clock.Now(),
		owners: map[types.UID]types.UID{}, newest: map[string]metering.Reading{},
	}
	var since time.Time
	if s.book, since = s.saver.Restore(s.started); !since.IsZero() {
		s.started = since
	}
	s.nodes.Informer()
	if err := s.scopes.prepare(); err != nil {
		return nil, fmt.Errorf("index for the sampler: %w", err)
	}
	return s, nil
}

// Run samples until ctx ends. The informers have been started.
func (s *Sampler) Run(ctx context.Context) {
	logger := klog.LoggerWithName(klog.FromContext(ctx), Name)
	ctx = klog.NewContext(ctx, logger)
	if err := s.watch(ctx); err != nil {
		logger.Error(err, "Cannot meter: watching pods failed")
		return
	}
	for ctx.Err() == nil {
		timer := s.clock.NewTimer(s.sample(ctx))
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// sample reads the usage of everything once, saves it, and returns when to do so again.
func (s *Sampler) sample(ctx context.Context) time.Duration {
	s.keep(time.Time{})
	err := s.read(ctx)
	s.save()
	switch {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		s.metrics.metricsAPI(false)
		if !s.down {
			klog.FromContext(ctx).Info("metrics.k8s.io does not answer: usage is reported as unknown until it does", "err", err)
		}
		s.down = true
		return sampleRetry
	}
	s.metrics.metricsAPI(true)
	if s.down {
		klog.FromContext(ctx).Info("metrics.k8s.io answers again")
	}
	s.down = false
	return min(sampleInterval, s.interval/2)
}

// save makes what was seen outlive a crash. It waits for the disk, which keeps nobody else waiting.
func (s *Sampler) save() {
	if s.saver == nil {
		return
	}
	s.mu.Lock()
	s.saver.Save(s.book, s.clock.Now())
	s.mu.Unlock()
	_ = s.flush() // the outbox tells of errors, and has what it could not write the next time
}

func (s *Sampler) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	nodes, err := s.usage.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("read the usage of nodes: %w", err)
	}
	s.enterNodes(nodes.Items)
	ours := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}).String()
	for _, scope := range s.scopes {
		pods, err := s.usage.MetricsV1beta1().PodMetricses(scope.Namespace).List(ctx, metav1.ListOptions{LabelSelector: ours})
		if err != nil {
			return fmt.Errorf("read the usage of pods: %w", err)
		}
		if err := s.enterPods(scope, pods.Items); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sampler) enterNodes(list []metricsv1beta1.NodeMetrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.newest) // of nodes that have gone
	for i := range list {
		m := &list[i]
		reading := reading(m.Timestamp, m.Usage)
		s.newest[m.Name] = reading
		if node, err := s.nodes.Lister().Get(m.Name); err == nil {
			s.book.Read(node.UID, reading)
		}
	}
}

func (s *Sampler) enterPods(scope Scope, list []metricsv1beta1.PodMetrics) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.adopt(); err != nil { // or their first readings would be forgotten
		return err
	}
	for i := range list {
		m := &list[i]
		pod, err := scope.Pods.Lister().Pods(m.Namespace).Get(m.Name)
		if err != nil {
			continue // it has ended
		}
		var sum metering.Reading
		for _, c := range m.Containers {
			r := reading(m.Timestamp, c.Usage)
			sum.At, sum.CPUMillicores, sum.MemoryBytes = r.At, sum.CPUMillicores+r.CPUMillicores, sum.MemoryBytes+r.MemoryBytes
		}
		if len(m.Containers) > 0 {
			s.book.Read(pod.UID, sum)
		}
	}
	return nil
}

func reading(at metav1.Time, usage corev1.ResourceList) metering.Reading {
	a := report.Amounts(usage)
	return metering.Reading{At: at.Time, CPUMillicores: a.CPUMillicores, MemoryBytes: a.MemoryBytes}
}

// nodeUsage is what a node uses now. Nil: nobody can tell.
func (s *Sampler) nodeUsage(name string) *clustercontrol.Amounts {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.newest[name]
	if !ok || s.clock.Since(r.At) > metering.Hold {
		return nil
	}
	return &clustercontrol.Amounts{CPUMillicores: r.CPUMillicores, MemoryBytes: r.MemoryBytes}
}

// records are those of one slot. They are computed for what is in the book, so slots must be asked for in order.
func (s *Sampler) records(cluster string, slot metering.Slot) ([]clustercontrol.UsageRecord, error) {
	s.mu.Lock() // also while listing: of a Workspace that goes meanwhile the end is entered afterwards
	defer s.mu.Unlock()
	if err := s.adopt(); err != nil {
		return nil, err
	}
	storage, err := s.storage()
	if err != nil {
		return nil, err
	}
	for w, bytes := range storage {
		entry := s.workspaceEntry(w, false)
		entry.StorageBytes = bytes
		s.book.Workspace(entry)
	}
	return s.book.Records(cluster, slot), nil
}

// storage is what each Workspace stores, or nil.
func (s *Sampler) storage() (map[*v1alpha1.Workspace]*int64, error) {
	datastores, err := s.scopes.datastores()
	if err != nil {
		return nil, err
	}
	claims, err := s.scopes.claims()
	if err != nil {
		return nil, err
	}
	workspaces, err := s.scopes.workspaces()
	if err != nil {
		return nil, err
	}
	known, storage := report.Storage(datastores, claims), map[*v1alpha1.Workspace]*int64{}
	for _, ws := range workspaces {
		storage[ws] = nil
		if bytes, ok := known[types.NamespacedName{Namespace: ws.Namespace, Name: ws.Name}]; ok {
			storage[ws] = &bytes
		}
	}
	return storage, nil
}

// keep forgets what only slots up to a moment need, and what is older than any slot that is still decided.
func (s *Sampler) keep(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since.After(s.kept) {
		s.kept = since
	}
	if oldest := s.clock.Now().Add(-sampleReach); oldest.After(s.kept) {
		s.kept = oldest
	}
	s.book.Forget(s.kept)
}
