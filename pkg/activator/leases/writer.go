// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// Writer writes Leases. Nothing is read first, and no resourceVersion is sent: of two replicas that write at once both succeed, and either
// way the Lease has changed.
type Writer struct {
	// Client reaches the Leases in v1alpha1.ActivatorNamespace.
	Client coordinationclient.LeaseInterface
	// Identity of this replica, for people.
	Identity string
}

// Write renews the Lease of a Workspace, and makes it if it is missing.
func (w *Writer) Write(ctx context.Context, ws Workspace) error {
	now := metav1.NewMicroTime(time.Now())
	err := w.patch(ctx, ws, now)
	if apierrors.IsNotFound(err) {
		if err = w.create(ctx, ws, now); apierrors.IsAlreadyExists(err) {
			err = w.patch(ctx, ws, now)
		}
	}
	if err != nil {
		return fmt.Errorf("renew the Lease of Workspace %s/%s: %w", ws.Namespace, ws.Name, err)
	}
	return nil
}

func (w *Writer) patch(ctx context.Context, ws Workspace, now metav1.MicroTime) error {
	body, err := json.Marshal(map[string]any{"spec": coordinationv1.LeaseSpec{HolderIdentity: &w.Identity, RenewTime: &now}})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = w.Client.Patch(ctx, string(ws.UID), types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

func (w *Writer) create(ctx context.Context, ws Workspace, now metav1.MicroTime) error {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: string(ws.UID),
			Labels: map[string]string{
				v1alpha1.LabelManagedBy:                   v1alpha1.ManagedBy,
				v1alpha1.LabelWorkspace:                   names.Label(ws.Name),
				v1alpha1.LabelActivatorWorkspaceNamespace: ws.Namespace,
			},
			Annotations: map[string]string{v1alpha1.AnnotationWorkspaceName: ws.Name},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &w.Identity, RenewTime: &now},
	}
	_, err := w.Client.Create(ctx, lease, metav1.CreateOptions{})
	return err
}
