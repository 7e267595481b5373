// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
)

// Writer writes children under one field manager.
type Writer struct {
	// Client of the built-in kinds.
	Client kubernetes.Interface
	// Dynamic is the client of other kinds. Nil: there are none.
	Dynamic dynamic.Interface
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

// Result is what became of a write.
type Result struct {
	// ResourceVersion of the object as written.
	ResourceVersion string
	// Existed says that an object which was to be created was there already, and ours. More of it than was written is news to the cache.
	Existed bool
	// Rewritten is what is left of the write as ours, if something changed it on its way in. Nil: it arrived as it was sent.
	Rewritten reconcile.Config
}

// Apply writes one child. owns tells our own object from a stranger's.
func (w *Writer) Apply(ctx context.Context, write reconcile.Write, owns func(metav1.Object) bool) (Result, error) {
	ns := ptr.Deref(write.Config.GetNamespace(), "")
	switch c := write.Config.(type) {
	case *corev1ac.SecretApplyConfiguration:
		return send(ctx, w, w.Client.CoreV1().Secrets(ns), c, corev1ac.ExtractSecret, write, owns)
	case *corev1ac.ConfigMapApplyConfiguration:
		return send(ctx, w, w.Client.CoreV1().ConfigMaps(ns), c, corev1ac.ExtractConfigMap, write, owns)
	case *corev1ac.ServiceApplyConfiguration:
		return send(ctx, w, w.Client.CoreV1().Services(ns), c, corev1ac.ExtractService, write, owns)
	case *discoveryv1ac.EndpointSliceApplyConfiguration:
		return send(ctx, w, w.Client.DiscoveryV1().EndpointSlices(ns), c, discoveryv1ac.ExtractEndpointSlice, write, owns)
	case *appsv1ac.DeploymentApplyConfiguration:
		return send(ctx, w, w.Client.AppsV1().Deployments(ns), c, appsv1ac.ExtractDeployment, write, owns)
	case *policyv1ac.PodDisruptionBudgetApplyConfiguration:
		return send(ctx, w, w.Client.PolicyV1().PodDisruptionBudgets(ns), c, policyv1ac.ExtractPodDisruptionBudget, write, owns)
	case *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration:
		return send(ctx, w, w.Client.AutoscalingV2().HorizontalPodAutoscalers(ns), c, autoscalingv2ac.ExtractHorizontalPodAutoscaler, write, owns)
	case *keda.HTTPScaledObject:
		return send(ctx, w, w.scaledObjects(ns), c, keda.Extract, write, owns)
	default:
		return Result{}, fmt.Errorf("apply %s: no client for %T", ptr.Deref(write.Config.GetName(), ""), write.Config)
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
	case "Endpoints":
		api = w.Client.CoreV1().Endpoints(namespace) // deprecated for readers; who deletes has no other name for them
	case "EndpointSlice":
		api = w.Client.DiscoveryV1().EndpointSlices(namespace)
	case "Deployment":
		api = w.Client.AppsV1().Deployments(namespace)
	case "PodDisruptionBudget":
		api = w.Client.PolicyV1().PodDisruptionBudgets(namespace)
	case "HorizontalPodAutoscaler":
		api = w.Client.AutoscalingV2().HorizontalPodAutoscalers(namespace)
	case keda.Kind:
		api = w.scaledObjects(namespace)
	default:
		return fmt.Errorf("delete %s %s/%s: no client for the kind", child.Kind, namespace, child.Name)
	}
	options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if child.UID != "" {
		options.Preconditions = metav1.NewUIDPreconditions(string(child.UID))
	}
	err := api.Delete(ctx, child.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s/%s: %w", child.Kind, namespace, child.Name, err)
	}
	return nil
}

// client is what the typed clients of all kinds have in common.
type client[T metav1.Object, C any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Apply(ctx context.Context, config C, options metav1.ApplyOptions) (T, error)
	Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// object is a pointer to an API object that can be inspected and encoded.
type object interface {
	metav1.Object
	runtime.Object
}

func send[T object, C reconcile.TypedConfig[C]](ctx context.Context, w *Writer, api client[T, C], config C,
	extract func(T, string) (C, error), write reconcile.Write, owns func(metav1.Object) bool,
) (Result, error) {
	kind, ns, name := ptr.Deref(config.GetKind(), ""), ptr.Deref(config.GetNamespace(), ""), ptr.Deref(config.GetName(), "")
	options := metav1.ApplyOptions{FieldManager: w.Manager, Force: true}
	var written T
	var err error
	if !write.Adopt {
		written, err = api.Apply(ctx, conditional(config, write), options)
	}
	existed := write.Create && nameTaken(err)
	adopting := write.Adopt || existed
	if adopting {
		var live T
		if live, err = adopt(ctx, w.Manager, api, kind, ns, name, owns); err != nil {
			return Result{}, err
		}
		if write.KeepReplicas {
			config = withReplicas(config, live)
		}
		write = reconcile.Write{UID: live.GetUID(), ResourceVersion: live.GetResourceVersion()}
		written, err = api.Apply(ctx, conditional(config.WithResourceVersion(""), write), options)
	}
	if err != nil {
		return Result{}, fmt.Errorf("apply %s %s/%s: %w", kind, ns, name, err)
	}
	result := Result{ResourceVersion: written.GetResourceVersion(), Existed: existed}
	got, err := extract(written, w.Manager)
	if err != nil {
		return result, fmt.Errorf("read our fields of %s %s/%s: %w", kind, ns, name, err)
	}
	if adopting {
		got = got.WithResourceVersion("") // as it was sent
	}
	if !equality.Semantic.DeepEqual(conditional(got, write), config) {
		result.Rewritten = got
	}
	return result, nil
}

// createOnly as the resourceVersion of an apply creates an object whose name is free and answers 409 for a name that is taken, so that
// nothing foreign is taken over and nothing has to be read first.
const createOnly = "1"

// nameTaken says whether a create-only apply found the name taken. A kind that allows no update without its resourceVersion (a
// PodDisruptionBudget) calls ours invalid instead.
func nameTaken(err error) bool {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.resourceVersion" })
}

// conditional states the preconditions of a write.
func conditional[C reconcile.TypedConfig[C]](config C, write reconcile.Write) C {
	if write.Create {
		return config.WithResourceVersion(createOnly)
	}
	if write.ResourceVersion != "" {
		config = config.WithResourceVersion(write.ResourceVersion)
	}
	return config.WithUID(write.UID)
}

// adopt reads an object of ours whose name is taken: the cache has not seen it, somebody took our label off, or another operator wrote it
// by updates. What that one owns is taken over first, for an apply prunes nothing that it does not own.
func adopt[T object, C any](ctx context.Context, manager string, api client[T, C], kind, ns, name string, owns func(metav1.Object) bool) (live T, err error) {
	live, err = api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lost := apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New("it went in between"))
		return live, fmt.Errorf("get %s %s/%s: %w: %w", kind, ns, name, lost, err)
	}
	if err != nil {
		return live, fmt.Errorf("get %s %s/%s: %w", kind, ns, name, err)
	}
	if !owns(live) {
		return live, &NameTakenError{Kind: kind, Namespace: ns, Name: name}
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(v1alpha1.LegacyManager), manager)
	if err != nil {
		return live, fmt.Errorf("take over the fields of %s %s/%s: %w", kind, ns, name, err)
	}
	if patch != nil {
		if live, err = api.Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: manager}); err != nil {
			return live, fmt.Errorf("take over the fields of %s %s/%s: %w", kind, ns, name, err)
		}
	}
	return live, nil
}

// withReplicas returns a Deployment's configuration with the live replica count. At zero, as for a missing object, the configuration decides.
func withReplicas[T object, C any](config C, live T) C {
	wanted, isDeployment := any(config).(*appsv1ac.DeploymentApplyConfiguration)
	found, exists := any(live).(*appsv1.Deployment)
	if !isDeployment || !exists || ptr.Deref(found.Spec.Replicas, 0) == 0 {
		return config
	}
	with, spec := *wanted, *wanted.Spec
	spec.Replicas = found.Spec.Replicas
	with.Spec = &spec
	return any(&with).(C) //nolint:forcetypeassert // it is of the type that it was
}
