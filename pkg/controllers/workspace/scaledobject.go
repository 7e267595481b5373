// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// scaledObject is the HTTPScaledObject of a Workspace, where the cluster has the kind.
func (c *Controller) scaledObject(key cache.ObjectName) (workspace.HTTPScaledObject, error) {
	if c.scaledObjects == nil {
		return workspace.HTTPScaledObject{}, nil
	}
	get := func(name string) (*unstructured.Unstructured, error) {
		object, found, err := c.scaledObjects.GetByKey(key.Namespace + "/" + name)
		live, ok := object.(*unstructured.Unstructured)
		switch {
		case err != nil:
			return nil, err
		case !found:
			return nil, apierrors.NewNotFound(keda.Resource.GroupResource(), name)
		case !ok:
			return nil, fmt.Errorf("the cache holds a %T", object)
		}
		return live, nil
	}
	return apply.Observe(c.memory, key, Name, keda.Kind, get, names.Deployment(key.Name), keda.Extract)
}

// scaledObjectUrgency leaves out the status.
func scaledObjectUrgency(old, cur *unstructured.Unstructured) urgency {
	if metadataChanged(old, cur) {
		return now
	}
	return never
}
