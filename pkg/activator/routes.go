// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	formspeclisters "github.com/formspec/formspec-operator/pkg/generated/listers/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/hosts"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

const (
	// workspacesByService finds the Workspace of a Service, as namespace/name.
	workspacesByService = "service"
	// workspacesWithHosts finds the Workspaces that claim hosts, under the key of the same name.
	workspacesWithHosts = "hosts"
)

// routes finds the Workspace that a request is for.
type routes struct {
	workspaces formspeclisters.WorkspaceLister
	index      cache.TypedIndexer[*v1alpha1.Workspace]
	classes    formspeclisters.ClusterClassLister

	mu       sync.Mutex
	stale    bool // a claim, or what decides on it, has changed
	accepted map[string]types.NamespacedName
}

func addWorkspaceIndexes(informer cache.TypedSharedIndexInformer[*v1alpha1.Workspace]) error {
	return informer.AddTypedIndexers(cache.TypedIndexers[*v1alpha1.Workspace]{
		workspacesByService: func(ws *v1alpha1.Workspace) ([]string, error) {
			return []string{serviceKey(ws.Namespace, names.Deployment(ws.Name))}, nil
		},
		workspacesWithHosts: func(ws *v1alpha1.Workspace) ([]string, error) {
			if len(ws.Spec.Hosts) == 0 {
				return nil, nil
			}
			return []string{workspacesWithHosts}, nil
		},
	})
}

func serviceKey(namespace, service string) string { return namespace + "/" + service }

// find returns the Workspace that answers to a DNS name, nil if none does. The name of its Service comes first: no claim can take that.
func (r *routes) find(name string) *v1alpha1.Workspace {
	if service, namespace, ok := serviceName(name); ok {
		if found, err := r.index.ByTypedIndex(workspacesByService, serviceKey(namespace, service)); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	owner, ok := r.owners()[name]
	if !ok {
		return nil
	}
	ws, err := r.workspaces.Workspaces(owner.Namespace).Get(owner.Name)
	if err != nil {
		return nil
	}
	return ws
}

// owners returns who has which claimed host. It is decided again when somebody asks and something has changed.
func (r *routes) owners() map[string]types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stale {
		return r.accepted
	}
	r.stale = false
	claims, err := r.index.ByTypedIndex(workspacesWithHosts, workspacesWithHosts)
	if err != nil {
		return r.accepted // only without the index
	}
	r.accepted = hosts.Accept(claims, func(class string) []string {
		c, err := r.classes.Get(class)
		if err != nil {
			return nil
		}
		return c.Spec.HostSuffixes
	}).Accepted
	return r.accepted
}

func (r *routes) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}

// asleep says whether the operator holds the Workspace at zero replicas, or has not looked at it yet.
func asleep(ws *v1alpha1.Workspace) bool {
	return ws.Status.Phase == v1alpha1.PhaseSleeping || ws.Status.Phase == ""
}

// whyNotReady is the reason that the operator gives, empty if it gives none.
func whyNotReady(ws *v1alpha1.Workspace) string {
	if ready := meta.FindStatusCondition(ws.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}
