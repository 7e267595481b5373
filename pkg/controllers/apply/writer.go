// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/reconcile"
)

// Writer writes children under one field manager.
type Writer struct {
	// Client of the built-in kinds.
	Client kubernetes.Interface
	// Manager is the field manager, one per controller.
	Manager string
}

// NameTakenError reports that a child's name belongs to an object that is not ours. That object was not touched.
type NameTakenError struct {
	Kind, Namespace, Name string
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("%s %s/%s exists and is not ours", e.Kind, e.Namespace, e.Name)
}

// Apply writes one child and returns the resourceVersion that it got. owns tells our own object from a stranger's.
func (w *Writer) Apply(ctx context.Context, write reconcile.Write, owns func(metav1.Object) bool) (string, error) {
	ns := ptr.Deref(write.Config.GetNamespace(), "")
	switch c := write.Config.(type) {
	case *corev1ac.SecretApplyConfiguration:
		return send(ctx, w.Manager, w.Client.CoreV1().Secrets(ns), c, write.Create, owns)
	case *corev1ac.ConfigMapApplyConfiguration:
		return send(ctx, w.Manager, w.Client.CoreV1().ConfigMaps(ns), c, write.Create, owns)
	case *corev1ac.ServiceApplyConfiguration:
		return send(ctx, w.Manager, w.Client.CoreV1().Services(ns), c, write.Create, owns)
	case *appsv1ac.DeploymentApplyConfiguration:
		return send(ctx, w.Manager, w.Client.AppsV1().Deployments(ns), c, write.Create, owns)
	case *policyv1ac.PodDisruptionBudgetApplyConfiguration:
		return send(ctx, w.Manager, w.Client.PolicyV1().PodDisruptionBudgets(ns), c, write.Create, owns)
	case *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration:
		return send(ctx, w.Manager, w.Client.AutoscalingV2().HorizontalPodAutoscalers(ns), c, write.Create, owns)
	default:
		return "", fmt.Errorf("apply %s: no client for %T", ptr.Deref(write.Config.GetName(), ""), write.Config)
	}
}

// Delete removes one child, if it is still the one that was meant. A child that is gone already is no error.
func (w *Writer) Delete(ctx context.Context, namespace string, child reconcile.Reference) error {
	var api interface {
		Delete(context.Context, string, metav1.DeleteOptions) error
	}
	switch child.Kind {
	case "ConfigMap":
		api = w.Client.CoreV1().ConfigMaps(namespace)
	case "Service":
		api = w.Client.CoreV1().Services(namespace)
	case "Deployment":
		api = w.Client.AppsV1().Deployments(namespace)
	case "PodDisruptionBudget":
		api = w.Client.PolicyV1().PodDisruptionBudgets(namespace)
	case "HorizontalPodAutoscaler":
		api = w.Client.AutoscalingV2().HorizontalPodAutoscalers(namespace)
	default:
		return fmt.Errorf("delete %s %s/%s: no client for the kind", child.Kind, namespace, child.Name)
	}
	err := api.Delete(ctx, child.Name, metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(child.UID)),
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s/%s: %w", child.Kind, namespace, child.Name, err)
	}
	return nil
}

// client is what the typed clients of all kinds have in common.
type client[T metav1.Object, C any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Apply(ctx context.Context, config C, options metav1.ApplyOptions) (T, error)
}

func send[T metav1.Object, C reconcile.TypedConfig[C]](ctx context.Context, manager string, api client[T, C], config C, create bool, owns func(metav1.Object) bool) (string, error) {
	kind, ns, name := ptr.Deref(config.GetKind(), ""), ptr.Deref(config.GetNamespace(), ""), ptr.Deref(config.GetName(), "")
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	written, err := api.Apply(ctx, config, options)
	if create && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) {
		var uid types.UID
		if uid, err = identify(ctx, api, kind, ns, name, owns); err != nil {
			return "", err
		}
		written, err = api.Apply(ctx, config.WithResourceVersion("").WithUID(uid), options)
	}
	if err != nil {
		return "", fmt.Errorf("apply %s %s/%s: %w", kind, ns, name, err)
	}
	return written.GetResourceVersion(), nil
}

// identify reads the object whose name is taken. It is ours if the cache has not seen it, or somebody took our label off.
func identify[T metav1.Object, C any](ctx context.Context, api client[T, C], kind, ns, name string, owns func(metav1.Object) bool) (types.UID, error) {
	live, err := api.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return "", fmt.Errorf("get %s %s/%s: %w", kind, ns, name, err)
	case !owns(live):
		return "", &NameTakenError{Kind: kind, Namespace: ns, Name: name}
	default:
		return live.GetUID(), nil
	}
}
