// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

// registerDelay is how long changes of nodes and datastores are collected.
const registerDelay = time.Second

// registrar registers nodes and datastores, and takes back what has gone. Source: contract §5.1.
//
// An id is noted before its registration is handed over, and crossed out after its deregistration was accepted. So whatever happens in
// between, the next leader knows of it: a node that is deleted while nobody leads is deregistered, too.
type registrar struct {
	*Leader
	wake chan struct{} // something may have changed
	anew atomic.Bool   // what was told does not count
	told map[clustercontrol.ID]clustercontrol.Registration
	done chan []clustercontrol.ID // whose deregistration was accepted
}

func newRegistrar(l *Leader) *registrar {
	return &registrar{
		Leader: l, wake: make(chan struct{}, 1), told: map[clustercontrol.ID]clustercontrol.Registration{}, done: make(chan []clustercontrol.ID),
	}
}

// watch wakes the registrar. It must be called before the informers start.
func (r *registrar) watch(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	options := cache.HandlerOptions{Logger: &logger}
	_, err := r.sampler.nodes.TypedInformer().AddTypedEventHandler(registered(r, func(old, cur *corev1.Node) bool {
		return !equality.Semantic.DeepEqual(report.NodeRegistration(old), report.NodeRegistration(cur))
	}), options)
	errs := []error{err}
	for _, scope := range r.scopes {
		_, err := scope.Datastores.TypedInformer().AddTypedEventHandler(registered(r, func(old, cur *v1alpha1.Datastore) bool {
			return report.Validated(old) != report.Validated(cur) ||
				!equality.Semantic.DeepEqual(report.DatastoreRegistration(old), report.DatastoreRegistration(cur))
		}), options)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register handlers of the registrar: %w", err)
	}
	return nil
}

func registered[T cache.Object](r *registrar, changed func(old, cur T) bool) cache.TypedResourceEventHandler[T] {
	return cache.TypedResourceEventHandlerFuncs[T]{
		AddFunc: func(T) { r.look() },
		UpdateFunc: func(old, cur T) {
			if changed(old, cur) {
				r.look()
			}
		},
		DeleteFunc: func(cache.DeletedObject[T]) { r.look() },
	}
}

func (r *registrar) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// again has everything registered anew.
func (r *registrar) again() {
	r.anew.Store(true)
	r.look()
}

// run registers until ctx ends.
func (r *registrar) run(ctx context.Context) {
	for {
		if err := r.register(ctx); err != nil { // of a cache, which does not fail
			klog.FromContext(ctx).Error(err, "Registering nodes and datastores failed")
		}
		select {
		case <-r.wake:
			r.pause(ctx, registerDelay)
		case ids := <-r.done:
			r.crossOut(ctx, ids)
		case <-ctx.Done():
			return
		}
	}
}

func (r *registrar) register(ctx context.Context) error {
	nodes, err := r.nodes()
	if err != nil {
		return err
	}
	datastores, err := r.scopes.datastores()
	if err != nil {
		return err
	}
	if r.anew.Swap(false) {
		clear(r.told)
	}
	changes := report.Changes(report.Inventory{Nodes: nodes, Datastores: datastores, Registered: r.notes.get().Registered, Told: r.told})
	if len(changes) == 0 {
		return nil
	}
	r.notes.note(ctx, func(n *Notes) { n.Registered.Insert(report.IDs(changes, clustercontrol.ActionRegister)...) })
	for _, change := range changes {
		r.told[clustercontrol.ID{Kind: change.Kind, ID: change.ID}] = change
		r.reporter.Register(change)
	}
	if gone := report.IDs(changes, clustercontrol.ActionDeregister); len(gone) > 0 {
		go r.await(ctx, gone)
	}
	return nil
}

// await tells when deregistrations that were handed over have been accepted.
func (r *registrar) await(ctx context.Context, gone []clustercontrol.ID) {
	if r.reporter.Wait(ctx, clustercontrol.Register) != nil {
		return // the next leader sends them again
	}
	select {
	case r.done <- gone:
	case <-ctx.Done():
	}
}

// crossOut forgets ids, unless they have come back.
func (r *registrar) crossOut(ctx context.Context, ids []clustercontrol.ID) {
	r.notes.note(ctx, func(n *Notes) {
		for _, id := range ids {
			if r.told[id].Action == clustercontrol.ActionDeregister {
				n.Registered.Delete(id)
				delete(r.told, id)
			}
		}
	})
}
