// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// service is the Service that the Workspace should have. Without a selector it leads where our EndpointSlice says. Source: contract §2, §6.
func (in Input) service(selector map[string]string) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(names.Deployment(in.Workspace.Name), in.Workspace.Namespace).
		WithLabels(in.labels()).WithOwnerReferences(in.owner()).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(selector).
			WithPorts(corev1ac.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).
				WithPort(80).WithTargetPort(intstr.FromString(portName))))
}
