// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"strings"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// configMap is what the app knows of its tier. Running pods see a change without a restart. Source: contract §2.
func (in Input) configMap() *corev1ac.ConfigMapApplyConfiguration {
	ws, class := in.Workspace, in.Class
	where := ws.Spec.Region
	if where == "" {
		where = region(class)
	}
	return corev1ac.ConfigMap(names.ConfigMap(ws.Name), ws.Namespace).
		WithLabels(in.labels()).WithOwnerReferences(in.owner()).
		WithData(map[string]string{
			"workspace":    ws.Name,
			"region":       where,
			"environment":  string(ws.Spec.Environment),
			"clusterClass": class.Name,
			"features":     strings.Join(class.Spec.Features, ","),
			"sla":          class.Spec.SLA,
			"storage":      class.Spec.Storage,
		})
}
