// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterClass is a tier that workspaces choose: its service level, scaling and price. The cloud owner defines it.
//
// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=fcc,categories=formspec
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Workspaces",type=integer,JSONPath=`.status.workspaces`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.maxWorkspaces`
// +kubebuilder:printcolumn:name="SLA",type=string,JSONPath=`.spec.sla`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterClass struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The label formspec.dev/region stands in for an empty spec.region.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the tier as its owner defines it.
	// +optional
	Spec ClusterClassSpec `json:"spec,omitempty"`
	// status is written by the operator alone.
	// +optional
	Status ClusterClassStatus `json:"status,omitempty"`
}

// ClusterClassList is a list of ClusterClasses.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ClusterClassList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the classes.
	Items []ClusterClass `json:"items"`
}

// ClusterClassSpec defines a tier. Every field may be left out: an empty class runs one replica on any node.
type ClusterClassSpec struct {
	// sla is the promised availability in percent, such as "99.99". It is handed to the app and to reports; the operator does not enforce it.
	// +optional
	SLA string `json:"sla,omitempty"`
	// region that the class belongs to, such as "jakarta". Empty: the label formspec.dev/region, else any region.
	// +optional
	Region string `json:"region,omitempty"`
	// availability is "multi-az" (replicas spread over zones) or "single-az". Empty: single-az.
	// +optional
	Availability string `json:"availability,omitempty"`
	// nodeType selects nodes by the label formspec.dev/tier: "dedicated" (enterprise), "shared" (shared) or "dev" (dev). Empty: any node.
	// +optional
	NodeType string `json:"nodeType,omitempty"`
	// storage names the kind of storage, such as "nvme-ssd". It is handed to the app and to reports; the operator does not enforce it.
	// +optional
	Storage string `json:"storage,omitempty"`
	// maxWorkspaces limits how many workspaces the class admits. 0 or absent: unlimited. Lowering it never stops a running workspace.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxWorkspaces int32 `json:"maxWorkspaces,omitempty"`
	// features switches features on: "auto-scaling" (an HPA per workspace), "cross-az-failover" (spread over zones). Others are
	// handed to the app and to reports, and the condition UnenforcedFeatures names them.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Features []string `json:"features,omitempty"`
	// scaling sets how many replicas a workspace runs.
	// +optional
	Scaling ClusterClassScaling `json:"scaling,omitempty"`
	// pricing is what the class costs, for reports. The operator does not use it.
	// +optional
	Pricing ClusterClassPricing `json:"pricing,omitempty"`
	// security relaxes the pod security of the class's workspaces.
	// +optional
	Security ClusterClassSecurity `json:"security,omitempty"`
	// hostSuffixes are the DNS suffixes, such as "apps.example.com", under which workspaces of this class may claim spec.hosts. Empty: none.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case without a leading dot, such as apps.example.com"
	// +optional
	HostSuffixes []string `json:"hostSuffixes,omitempty"`
	// resourceImage replaces the operator's --resource-image for the class, to try a new version on one tier first. It must be pinned by
	// a version or a digest. Empty: the operator's image.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^ \\t\\r\\n]*$')",message="must be an image reference without white space, such as formahub/formspec-resource:1.4.2"
	// +optional
	ResourceImage string `json:"resourceImage,omitempty"`
}

// ClusterClassScaling sets how many replicas a workspace of the class runs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxReplicas) || !has(self.minReplicas) || self.maxReplicas >= self.minReplicas",message="maxReplicas must not be less than minReplicas"
type ClusterClassScaling struct {
	// minReplicas a workspace runs. 0 with scaleToZero: an idle workspace sleeps; 0 without it counts as 1.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// scaleToZero lets an idle workspace sleep at zero replicas; its first request wakes it. Default: false.
	// +optional
	ScaleToZero bool `json:"scaleToZero,omitempty"`
	// maxReplicas bounds the feature auto-scaling. Absent: the greater of 4 and 5 × minReplicas.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
	// idleAfter is how long a workspace has no request before it sleeps, such as "5m". Absent: the operator's --idle-after.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}(ms|s|m|h))+$')",message="must be a duration such as 90s, 5m or 1h30m"
	// +optional
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`
	// spread says whether replicas only prefer (Preferred) or must have (Required) different nodes and, with several zones, different zones.
	// Required pods that find no such node stay Pending. Default: Preferred.
	// +optional
	Spread SpreadPolicy `json:"spread,omitempty"`
}

// SpreadPolicy says how strictly replicas keep apart.
//
// +kubebuilder:validation:Enum=Preferred;Required
type SpreadPolicy string

// The spread policies. Empty means SpreadPreferred.
const (
	SpreadPreferred SpreadPolicy = "Preferred"
	SpreadRequired  SpreadPolicy = "Required"
)

// ClusterClassPricing is what a class costs, in the smallest unit that the owner counts in.
type ClusterClassPricing struct {
	// currency is an ISO 4217 code, such as "IDR".
	// +optional
	Currency string `json:"currency,omitempty"`
	// baseMonthly is the price of the class itself a month.
	// +kubebuilder:validation:Minimum=0
	// +optional
	BaseMonthly int64 `json:"baseMonthly,omitempty"`
	// perWorkspace is the price of one workspace a month.
	// +kubebuilder:validation:Minimum=0
	// +optional
	PerWorkspace int64 `json:"perWorkspace,omitempty"`
	// perGBStorage is the price of one gigabyte a month.
	// +kubebuilder:validation:Minimum=0
	// +optional
	PerGBStorage int64 `json:"perGBStorage,omitempty"`
}

// ClusterClassSecurity relaxes the pod security of the class's workspaces.
type ClusterClassSecurity struct {
	// readOnlyRootFilesystem mounts the container's root file system read-only; /tmp and /var/lib/formspec stay writable. Default: true.
	// +optional
	ReadOnlyRootFilesystem *bool `json:"readOnlyRootFilesystem,omitempty"`
}

// ClusterClassStatus is what the operator observed of a class.
type ClusterClassStatus struct {
	// observedGeneration is the metadata.generation that this status describes. 0: not yet seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions by type: Ready, Stalled, InUse, UnenforcedFeatures.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// workspaces counts the workspaces that name this class, admitted or not.
	// +optional
	Workspaces int32 `json:"workspaces"` // also 0, for its column
	// admitted counts the workspaces that hold one of the class's maxWorkspaces slots.
	// +optional
	Admitted int32 `json:"admitted"` // as above
}
