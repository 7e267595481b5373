// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

const (
	// statusesName is the name of the controller.
	statusesName = "formspec-reports-status"
	// statusDelay is how long changes of one Workspace are collected: they come in groups, and the last one counts.
	statusDelay = time.Second
	// goneReach is how long a standby remembers who has gone, in case the leader died before it told.
	goneReach = 10 * time.Minute
)

// StatusesConfig is what Statuses are made from. Every field but Metrics is needed.
type StatusesConfig struct {
	Scopes   []Scope
	Reporter clustercontrol.Reporter
	Clock    clock.WithTicker
	Metrics  *worker.Metrics
}

// Statuses tells how Workspaces are, when that changes. A new leader tells all of them. Source: contract §5.4.
type Statuses struct {
	scopes   scopes
	reporter clustercontrol.Reporter
	clock    clock.PassiveClock
	queue    worker.Queue
	worker   *worker.Worker
	synced   []cache.DoneChecker

	mu   sync.Mutex
	told map[types.UID]told
	gone map[cache.ObjectName][]told // that are to be told
	away time.Time                   // since when Cluster Control is away; zero: it is not
}

// told is what was handed over, and when.
type told struct {
	record clustercontrol.StatusRecord
	at     time.Time
}

// NewStatuses registers the loop with its informers, which must not have started yet. It does nothing before Run.
func NewStatuses(ctx context.Context, config StatusesConfig) (*Statuses, error) {
	s := &Statuses{
		scopes: config.Scopes, reporter: config.Reporter, clock: config.Clock, queue: worker.NewQueue(statusesName, config.Clock),
		told: map[types.UID]told{}, gone: map[cache.ObjectName][]told{},
	}
	s.worker = &worker.Worker{Name: statusesName, Queue: s.queue, Sync: s.sync, Clock: config.Clock, Metrics: config.Metrics}
	logger := klog.LoggerWithName(klog.FromContext(ctx), statusesName)
	options := cache.HandlerOptions{Logger: &logger}
	var errs []error
	keep := func(registration cache.ResourceEventHandlerRegistration, err error) {
		if errs = append(errs, err); err == nil {
			s.synced = append(s.synced, registration.HasSyncedChecker())
		}
	}
	for _, scope := range s.scopes {
		keep(scope.Workspaces.TypedInformer().AddTypedEventHandler(s.workspaceHandler(), options))
		keep(scope.Deployments.TypedInformer().AddTypedEventHandler(s.deploymentHandler(), options))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register handlers of %s: %w", statusesName, err)
	}
	return s, nil
}

// Name of the controller.
func (s *Statuses) Name() string { return statusesName }

// Run hands over until ctx ends.
func (s *Statuses) Run(ctx context.Context, _ int) error { return s.worker.Run(ctx, 1, s.synced...) }

// sync hands a Workspace's status over, unless that is what was handed over last.
func (s *Statuses) sync(_ context.Context, key cache.ObjectName) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gone := range s.gone[key] {
		s.reporter.Status(report.Gone(gone.record))
		delete(s.told, gone.record.UID)
	}
	delete(s.gone, key)
	ws := s.scopes.workspace(key)
	if ws == nil {
		return 0, nil
	}
	record, known := report.Status(ws, s.scopes.deployment(ws))
	if !known || equality.Semantic.DeepEqual(s.told[ws.UID].record, record) {
		return 0, nil
	}
	s.told[ws.UID] = told{record, s.clock.Now()}
	s.reporter.Status(record)
	return 0, nil
}

// Reachable is told when Cluster Control has gone away or come back. Then every Workspace is told anew, because nobody knows what Cluster
// Control remembers; but not those whose status was handed over meanwhile, for that is on its way.
func (s *Statuses) Reachable(reachable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !reachable {
		s.away = s.clock.Now()
		return
	}
	s.retell(s.away)
	s.away = time.Time{}
}

// Trusted tells every Workspace anew: Cluster Control has refused it, and does not any more.
func (s *Statuses) Trusted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retell(s.clock.Now())
}

// retell forgets what was told before a time. The lock is held.
func (s *Statuses) retell(before time.Time) {
	for uid, t := range s.told {
		if t.at.Before(before) {
			delete(s.told, uid)
			s.queue.Add(cache.NewObjectName(t.record.Namespace, t.record.Workspace))
		}
	}
}

func (s *Statuses) workspaceHandler() cache.TypedResourceEventHandler[*v1alpha1.Workspace] {
	return cache.TypedResourceEventHandlerFuncs[*v1alpha1.Workspace]{
		AddFunc: func(ws *v1alpha1.Workspace) { s.queue.AddAfter(cache.MetaObjectToName(ws), statusDelay) },
		UpdateFunc: func(old, cur *v1alpha1.Workspace) {
			if old.UID != cur.UID { // the informer missed that it was deleted and created again
				s.ends(old)
			}
			if !equality.Semantic.DeepEqual(old.Status, cur.Status) {
				s.queue.AddAfter(cache.MetaObjectToName(cur), statusDelay)
			}
		},
		DeleteFunc: func(ws cache.DeletedObject[*v1alpha1.Workspace]) {
			if ws.OptionalObj != nil {
				s.ends(ws.OptionalObj)
			}
		},
	}
}

// ends keeps the last status of a Workspace that has gone until it was told.
func (s *Statuses) ends(ws *v1alpha1.Workspace) {
	key, now := cache.MetaObjectToName(ws), s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, list := range s.gone { // a standby tells nothing, and must not remember for ever
		if last := list[len(list)-1]; now.Sub(last.at) > goneReach {
			delete(s.gone, other)
		}
	}
	s.gone[key] = append(s.gone[key], told{clustercontrol.StatusRecord{
		Namespace: ws.Namespace, Workspace: ws.Name, UID: ws.UID, ObservedGeneration: ws.Status.ObservedGeneration,
	}, now})
	s.queue.AddAfter(key, statusDelay)
}

// deploymentHandler wakes the Workspace whose replicas or rollout have changed.
func (s *Statuses) deploymentHandler() cache.TypedResourceEventHandler[*appsv1.Deployment] {
	wake := func(d *appsv1.Deployment) {
		if owner := metav1.GetControllerOfNoCopy(d); owner != nil && owner.Kind == "Workspace" {
			s.queue.AddAfter(cache.NewObjectName(d.Namespace, owner.Name), statusDelay)
		}
	}
	return cache.TypedResourceEventHandlerFuncs[*appsv1.Deployment]{
		AddFunc: wake,
		UpdateFunc: func(old, cur *appsv1.Deployment) {
			if old.Generation != cur.Generation || !equality.Semantic.DeepEqual(old.Status, cur.Status) {
				wake(cur)
			}
		},
		DeleteFunc: func(d cache.DeletedObject[*appsv1.Deployment]) {
			if d.OptionalObj != nil {
				wake(d.OptionalObj)
			}
		},
	}
}
