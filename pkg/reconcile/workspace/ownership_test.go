// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

func TestOwns(t *testing.T) {
	shop := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "uid-of-shop"}}
	wrote := func(manager string, operation metav1.ManagedFieldsOperationType, subresource string) func(metav1.Object) {
		return func(o metav1.Object) {
			o.SetManagedFields([]metav1.ManagedFieldsEntry{
				{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate},
				{Manager: manager, Operation: operation, Subresource: subresource},
			})
		}
	}
	weApplied := wrote(workspace.Manager, metav1.ManagedFieldsOperationApply, "")
	for name, row := range map[string]struct {
		changes []func(metav1.Object)
		want    bool
	}{
		"it belongs to the workspace":               {[]func(metav1.Object){func(o metav1.Object) { ownedBy(o, "uid-of-shop") }}, true},
		"it belongs to an earlier one":              {[]func(metav1.Object){func(o metav1.Object) { ownedBy(o, "uid-of-an-earlier-shop") }}, false},
		"we applied it, and it belongs to somebody": {[]func(metav1.Object){weApplied, func(o metav1.Object) { ownedBy(o, "uid-of-somebody") }}, false},
		"we applied it, and it belongs to nobody":   {[]func(metav1.Object){weApplied}, true},
		"nobody knows where it is from":             {nil, false},
		"somebody else applied it":                  {[]func(metav1.Object){wrote("kubectl", metav1.ManagedFieldsOperationApply, "")}, false},
		"we updated it only":                        {[]func(metav1.Object){wrote(workspace.Manager, metav1.ManagedFieldsOperationUpdate, "")}, false},
		"we applied a subresource only":             {[]func(metav1.Object){wrote(workspace.Manager, metav1.ManagedFieldsOperationApply, "status")}, false},
		"its labels are ours, its fields are not": {[]func(metav1.Object){func(o metav1.Object) {
			o.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelWorkspace: "shop"})
		}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "formspec-resource-shop"}}
			for _, change := range row.changes {
				change(service)
			}
			if got := workspace.Owns(shop, service); got != row.want {
				t.Errorf("Owns says %v, want %v", got, row.want)
			}
		})
	}
}
