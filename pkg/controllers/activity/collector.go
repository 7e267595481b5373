// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activity

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions/formspec/v1alpha1"
)

// CollectorName is the name of the controller: in logs and metrics.
const CollectorName = "formspec-lease"

// grace is how long a Lease without Workspace stays: until this process has surely seen a new Workspace, and the activators that an old one
// is gone.
const grace = 30 * time.Second

// CollectorConfig is what the collector is made from. Every field but Metrics is needed.
type CollectorConfig struct {
	Client kubernetes.Interface
	// Workspaces of all namespaces that the operator works in.
	Workspaces []formspecinformers.TypedWorkspaceInformer
	// Namespaces are these. Empty: all.
	Namespaces []string
	Clock      clock.WithTicker
	Metrics    *worker.Metrics
}

// Collector deletes the Leases of Workspaces that are gone.
type Collector struct {
	client     kubernetes.Interface
	tracker    *Tracker
	workspaces []cache.TypedIndexer[*v1alpha1.Workspace]
	queue      worker.Queue
	worker     *worker.Worker
	synced     []cache.DoneChecker
}

// NewCollector registers the collector with its informers, which must not have started yet.
func NewCollector(ctx context.Context, tracker *Tracker, config CollectorConfig) (*Collector, error) {
	c := &Collector{client: config.Client, tracker: tracker, queue: worker.NewQueue(CollectorName, config.Clock)}
	c.worker = &worker.Worker{Name: CollectorName, Queue: c.queue, Sync: c.sync, Clock: config.Clock, Metrics: config.Metrics}
	logger := klog.LoggerWithName(klog.FromContext(ctx), CollectorName)
	options := cache.HandlerOptions{Logger: &logger}
	var errs []error
	for _, informer := range config.Workspaces {
		errs = append(errs, index.Workspaces(informer.TypedInformer()))
		c.workspaces = append(c.workspaces, informer.TypedInformer().GetTypedIndexer())
		registration, err := informer.TypedInformer().AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*v1alpha1.Workspace]{
			UpdateFunc: func(old, cur *v1alpha1.Workspace) {
				if old.UID != cur.UID { // the informer missed that it was deleted and created again
					c.gone(old)
				}
			},
			DeleteFunc: func(ws cache.DeletedObject[*v1alpha1.Workspace]) {
				if ws.OptionalObj != nil {
					c.gone(ws.OptionalObj)
				}
			},
		}, options)
		if errs = append(errs, err); err == nil {
			c.synced = append(c.synced, registration.HasSyncedChecker())
		}
	}
	_, err := tracker.leases.AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*coordinationv1.Lease]{
		AddFunc: func(lease *coordinationv1.Lease) {
			if len(config.Namespaces) == 0 || slices.Contains(config.Namespaces, lease.Labels[v1alpha1.LabelActivatorWorkspaceNamespace]) {
				c.queue.AddAfter(cache.MetaObjectToName(lease), grace)
			}
		},
	}, options)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register handlers of %s: %w", CollectorName, err)
	}
	return c, nil
}

// Name of the controller.
func (c *Collector) Name() string { return CollectorName }

// Run works until ctx ends, and returns once every started sync has finished.
func (c *Collector) Run(ctx context.Context, workers int) error {
	return c.worker.Run(ctx, workers, c.synced...)
}

func (c *Collector) gone(ws *v1alpha1.Workspace) {
	c.tracker.forget(ws.UID)
	c.queue.AddAfter(cache.NewObjectName(v1alpha1.ActivatorNamespace, string(ws.UID)), grace)
}

// isUID spares Leases in the same namespace that are not for a Workspace.
var isUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// sync deletes a Lease that is no Workspace's.
func (c *Collector) sync(ctx context.Context, key cache.ObjectName) (time.Duration, error) {
	object, found, err := c.tracker.leases.GetStore().GetByKey(key.String())
	lease, ok := object.(*coordinationv1.Lease)
	if err != nil || !found || !ok || !isUID.MatchString(key.Name) {
		return 0, err
	}
	for _, indexer := range c.workspaces {
		owners, err := indexer.ByTypedIndex(index.WorkspacesByUID, key.Name)
		if err != nil {
			return 0, fmt.Errorf("find the Workspace of Lease %s: %w", key, err)
		}
		if len(owners) > 0 {
			return 0, nil
		}
	}
	klog.FromContext(ctx).V(2).Info("Deleting the Lease of a Workspace that is gone", "lease", key)
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(lease.UID))}
	err = c.client.CoordinationV1().Leases(key.Namespace).Delete(ctx, key.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("delete Lease %s: %w", key, err)
	}
	return 0, nil
}
