// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
	"github.com/formspec/formspec-operator/pkg/controllers/index"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

// watch enters into the book what lives, and when it ends. Workspaces come before their pods, so that it is known whose a pod is.
func (s *Sampler) watch(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	options := cache.HandlerOptions{Logger: &logger}
	var errs []error
	var entered []cache.DoneChecker
	keep := func(r cache.ResourceEventHandlerRegistration, err error) {
		if errs = append(errs, err); err == nil {
			entered = append(entered, r.HasSyncedChecker())
		}
	}
	for _, scope := range s.scopes {
		keep(scope.Workspaces.TypedInformer().AddTypedEventHandler(lives(s.workspaceLives), options))
	}
	if cache.WaitFor(ctx, "", entered...); ctx.Err() != nil {
		return nil
	}
	for _, scope := range s.scopes {
		keep(scope.Pods.TypedInformer().AddTypedEventHandler(lives(s.podLives), options))
	}
	keep(s.nodes.TypedInformer().AddTypedEventHandler(lives(s.nodeLives), options))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register handlers: %w", err)
	}
	return nil
}

type living interface {
	cache.Object
	GetUID() types.UID
}

// lives calls back for each state of an object, and for its end.
func lives[T living](enter func(object T, gone bool)) cache.TypedResourceEventHandler[T] {
	return cache.TypedResourceEventHandlerFuncs[T]{
		AddFunc: func(object T) { enter(object, false) },
		UpdateFunc: func(old, cur T) {
			if old.GetUID() != cur.GetUID() { // the informer missed that it was deleted and created again
				enter(old, true)
			}
			enter(cur, false)
		},
		DeleteFunc: func(object cache.DeletedObject[T]) { enter(object.OptionalObj, true) },
	}
}

func (s *Sampler) workspaceLives(ws *v1alpha1.Workspace, gone bool) {
	if ws == nil {
		return // missed by the informer, and not known any more: so it never was
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.Workspace(s.workspaceEntry(ws, gone))
}

func (s *Sampler) workspaceEntry(ws *v1alpha1.Workspace, gone bool) metering.Workspace {
	return metering.Workspace{UID: ws.UID, Namespace: ws.Namespace, Name: ws.Name, Life: report.ObjectLife(ws, s.clock.Now(), gone)}
}

func (s *Sampler) nodeLives(node *corev1.Node, gone bool) {
	if node == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enterNode(node, gone)
}

// enterNode is called with the lock held.
func (s *Sampler) enterNode(node *corev1.Node, gone bool) {
	s.book.Node(metering.Node{UID: node.UID, Name: node.Name, Life: report.ObjectLife(node, s.clock.Now(), gone)})
}

func (s *Sampler) podLives(pod *corev1.Pod, gone bool) {
	if pod == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enterPod(pod, gone)
}

// adopt enters the pods whose Workspace was not known yet when they came: two caches are filled by two watches. And it enters what an earlier
// process knew and no handler has told of yet.
func (s *Sampler) adopt() error {
	pods, err := s.scopes.pods()
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if _, known := s.owners[pod.UID]; !known {
			s.enterPod(pod, false)
		}
	}
	nodes, err := s.nodes.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range nodes {
		s.enterNode(node, false)
	}
	return nil
}

// enterPod is called with the lock held.
func (s *Sampler) enterPod(pod *corev1.Pod, gone bool) {
	owner, known := s.owners[pod.UID]
	if !known {
		if owner = cmp.Or(s.book.Owner(pod.UID), s.owner(pod)); owner == "" {
			return // its Workspace is not known yet, or it is somebody else's with our labels
		}
		s.owners[pod.UID] = owner
	}
	if gone {
		delete(s.owners, pod.UID)
	}
	s.book.Pod(metering.Pod{UID: pod.UID, Workspace: owner, Node: pod.Spec.NodeName, Life: report.PodLife(pod, s.clock.Now(), gone)})
}

// owner is the UID of the Workspace that a pod runs. A Workspace that is younger than the pod is a successor of the same name.
func (s *Sampler) owner(pod *corev1.Pod) types.UID {
	for _, scope := range s.scopes {
		workspaces, err := scope.Workspaces.TypedInformer().GetTypedIndexer().ByTypedIndex(
			index.WorkspacesByLabel, index.Key(pod.Namespace, pod.Labels[v1alpha1.LabelWorkspace]))
		if err != nil {
			continue // the index is always there
		}
		for _, ws := range workspaces {
			if !pod.CreationTimestamp.Before(&ws.CreationTimestamp) {
				return ws.UID
			}
		}
	}
	return ""
}
