// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

// beat reports the health of all nodes every 15 s. Source: contract §5.2.
func (l *Leader) beat(ctx context.Context) {
	ticker := l.clock.NewTicker(clustercontrol.BeatInterval)
	defer ticker.Stop()
	for {
		reports, err := l.nodeReports()
		if err != nil { // of a cache, which does not fail
			klog.FromContext(ctx).Error(err, "Reporting the health of nodes failed")
		}
		if reports != nil {
			l.reporter.Health(reports)
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
	}
}

// nodeReports are those of one beat. Nil: the nodes cannot be read, or there are none.
func (l *Leader) nodeReports() ([]clustercontrol.NodeReport, error) {
	nodes, err := l.nodes()
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	pods, err := l.scopes.pods()
	if err != nil {
		return nil, err
	}
	workspaces := map[string]sets.Set[string]{} // by node
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if workspaces[pod.Spec.NodeName] == nil {
			workspaces[pod.Spec.NodeName] = sets.New[string]()
		}
		workspaces[pod.Spec.NodeName].Insert(pod.Namespace + "/" + pod.Labels[v1alpha1.LabelWorkspace])
	}
	reports := make([]clustercontrol.NodeReport, 0, len(nodes))
	for _, node := range nodes {
		reports = append(reports, report.Node(node, int64(workspaces[node.Name].Len()), l.sampler.nodeUsage(node.Name)))
	}
	slices.SortFunc(reports, func(a, b clustercontrol.NodeReport) int { return cmp.Compare(a.Node, b.Node) })
	return reports, nil
}

// nodes are those of the cluster. Nil: they have not been read yet.
func (l *Leader) nodes() ([]*corev1.Node, error) {
	informer := l.sampler.nodes
	if !informer.Informer().HasSynced() {
		return nil, nil
	}
	nodes, err := informer.Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if nodes == nil {
		nodes = []*corev1.Node{}
	}
	return nodes, nil
}
