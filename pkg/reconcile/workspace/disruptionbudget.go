// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// disruptionBudget lets evictions take one replica at a time, and broken ones always. Source: contract §2.
func (in Input) disruptionBudget() *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(names.Deployment(in.Workspace.Name), in.Workspace.Namespace).
		WithLabels(in.labels()).WithOwnerReferences(in.owner()).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(in.selector()).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow))
}
