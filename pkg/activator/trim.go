// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	transforms "github.com/formspec/formspec-operator/pkg/controllers/trim"
)

// trim keeps of each object what the activator looks at. Every replica has all Workspaces in memory.
func trim(object any) (any, error) {
	switch o := object.(type) {
	case *v1alpha1.Workspace:
		return trimWorkspace(o), nil
	case *v1alpha1.ClusterClass:
		return transforms.Own(o)
	case *discoveryv1.EndpointSlice:
		return transforms.EndpointSlice(o)
	case *coordinationv1.Lease:
		return &coordinationv1.Lease{ObjectMeta: identity(o), Spec: coordinationv1.LeaseSpec{RenewTime: o.Spec.RenewTime}}, nil
	}
	return object, nil // a tombstone, whose object was trimmed before
}

func trimWorkspace(ws *v1alpha1.Workspace) *v1alpha1.Workspace {
	slim := &v1alpha1.Workspace{
		ObjectMeta: identity(ws),
		Spec:       v1alpha1.WorkspaceSpec{ClusterClass: ws.Spec.ClusterClass, Hosts: ws.Spec.Hosts},
		Status:     v1alpha1.WorkspaceStatus{Phase: ws.Status.Phase, Hosts: ws.Status.Hosts},
	}
	if ready := meta.FindStatusCondition(ws.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		slim.Status.Conditions = []metav1.Condition{{Type: ready.Type, Status: ready.Status, Reason: ready.Reason}}
	}
	return slim
}

func identity(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
	}
}
