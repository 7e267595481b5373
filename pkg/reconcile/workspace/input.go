// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workspace decides what a Workspace should be in Kubernetes.
package workspace

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/hosts"
	"github.com/formspec/formspec-operator/pkg/reconcile/keda"
)

// The observed children, by kind.
type (
	// ConfigMap is the workspace's configuration, mounted into its pods.
	ConfigMap = reconcile.Child[*corev1.ConfigMap, *corev1ac.ConfigMapApplyConfiguration]
	// Secret is the credentials Secret, which outlives the Workspace.
	Secret = reconcile.Child[*corev1.Secret, *corev1ac.SecretApplyConfiguration]
	// Service is how the app is reached inside the cluster.
	Service = reconcile.Child[*corev1.Service, *corev1ac.ServiceApplyConfiguration]
	// Deployment runs the app.
	Deployment = reconcile.Child[*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration]
	// Slice is the EndpointSlice that leads the Service to the activator.
	Slice = reconcile.Child[*discoveryv1.EndpointSlice, *discoveryv1ac.EndpointSliceApplyConfiguration]
	// HTTPScaledObject leaves the replica count to KEDA.
	HTTPScaledObject = reconcile.Child[*unstructured.Unstructured, *keda.HTTPScaledObject]
	// Autoscaler is the HorizontalPodAutoscaler of a class with auto-scaling.
	Autoscaler = reconcile.Child[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration]
	// DisruptionBudget keeps evictions from taking more than one replica at a time.
	DisruptionBudget = reconcile.Child[*policyv1.PodDisruptionBudget, *policyv1ac.PodDisruptionBudgetApplyConfiguration]
)

// Input is everything that a plan depends on.
type Input struct {
	// Now is the time of the decision.
	Now time.Time
	// Settings are the operator's own.
	Settings Settings
	// Workspace is the object itself, never nil.
	Workspace *v1alpha1.Workspace
	// Class is the ClusterClass that the Workspace names. Nil: there is none.
	Class *v1alpha1.ClusterClass
	// Admitted is the class whose slot the Workspace holds. Nothing new starts unless it is Class.
	Admitted string
	// Children are the live children of the deterministic names, ours or not.
	Children Children
	// Pods are the pods that carry the workspace's label.
	Pods []*corev1.Pod
	// Bindings are the claims that name the Workspace, by datastore and then by name.
	Bindings []Binding
	// Listed are the datastores and caches that the Workspace lists, in its order.
	Listed []Listed
	// Traffic is what was observed of the workspace's requests. Only Workspaces of a class with scaleToZero have any.
	Traffic Traffic
	// Hosts are those of spec.hosts that the workspace does not get.
	Hosts []hosts.Refusal
	// Recheck is when the next verdict on a claim changes by itself. Zero: never.
	Recheck time.Duration
	// Restart is the newest restart request of Cluster Control that is not known to be in the status. Nil: there is none.
	Restart *Restart
	// Refusal is the first refusal of a write of the plan before this one, which is made again for it. Nil: there was none.
	Refusal *reconcile.Refusal
	// Refused are the objects whose writes were refused. What depends on them is planned without.
	Refused []Refused
}

// Refused names an object whose write was refused.
type Refused struct{ Kind, Name string }

// Restart asks for new pods, whose binary an artifact has changed. Source: contract §2, §5.5.
type Restart struct {
	// Hash of the binary.
	Hash string
	// Version of the artifact, for people.
	Version string
	// Cursor orders requests: the higher one is the newer.
	Cursor int64
}

// Children are the live children of one Workspace.
type Children struct {
	Credentials      Secret
	ConfigMap        ConfigMap
	Service          Service
	PodsService      Service
	Slice            Slice
	Deployment       Deployment
	DisruptionBudget DisruptionBudget
	Autoscaler       Autoscaler
	HTTPScaledObject HTTPScaledObject
	// Theirs are the EndpointSlices of Service that other controllers made. Unlike children they come and go by themselves.
	Theirs []*discoveryv1.EndpointSlice
}

// Settings are the flags of the operator that shape children. The operator's own version is not among them: an upgrade restarts nothing.
type Settings struct {
	// ClusterName is this cluster's name. Empty agrees with every spec.cluster but a stated one.
	ClusterName string
	// ControlURL is what pods get as CONTROL_CLUSTER_URL. Empty: the variable is absent.
	ControlURL string
	// Image is the generic image, pinned by a version or a digest.
	Image string
	// AllowUnpinned accepts an image without a version (--dev).
	AllowUnpinned bool
	// ScaleToZero is who lets workspaces sleep. Empty: nobody.
	ScaleToZero Mode
	// KEDAInstalled says that the cluster has KEDA's HTTPScaledObject.
	KEDAInstalled bool
	// IdleAfter is how long a workspace has no request before it sleeps, where its class does not say.
	IdleAfter time.Duration
	// WakeDeadline is how long a woken workspace may take to become ready before that is called a failure.
	WakeDeadline time.Duration
}
