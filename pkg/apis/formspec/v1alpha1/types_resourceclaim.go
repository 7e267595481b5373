// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ResourceClaim is a datastore owner's signed grant: this workspace may use this datastore, with this permission.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=frc,categories=formspec
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Datastore",type=string,JSONPath=`.spec.datastore`
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.spec.workspace`
// +kubebuilder:printcolumn:name="Permission",type=string,JSONPath=`.spec.permission`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceClaim struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the grant as its owner signed it.
	// +required
	Spec ResourceClaimSpec `json:"spec"`
	// status is written by the operator alone.
	// +optional
	Status ResourceClaimStatus `json:"status,omitempty"`
}

// ResourceClaimList is a list of ResourceClaims.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type ResourceClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the claims.
	Items []ResourceClaim `json:"items"`
}

// ResourceClaimSpec is the grant. The signature covers the fields exactly as they are written here.
type ResourceClaimSpec struct {
	// datastore is the name of the Datastore, in the claim's own namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Datastore string `json:"datastore"`
	// workspace is the name of the Workspace, in the claim's own namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Workspace string `json:"workspace"`
	// permission that is granted: read-only or read-write.
	// +optional
	Permission Permission `json:"permission,omitempty"`
	// grantedBy is the name of the owner who signed. It must equal the Datastore's owner.
	// +optional
	GrantedBy string `json:"grantedBy,omitempty"`
	// grantedAt is when the grant was given, in RFC 3339. It is signed as it is written.
	// +optional
	GrantedAt string `json:"grantedAt,omitempty"`
	// signature is the owner's ed25519 signature in hex (128 digits).
	// +optional
	Signature string `json:"signature,omitempty"`
	// grantVersion of the signed message: 1 (names only) or 2 (bound to cluster and namespace, may expire). Absent: 1.
	// +kubebuilder:validation:Enum=1;2
	// +optional
	GrantVersion int32 `json:"grantVersion,omitempty"`
	// expiresAt is when a version 2 grant ends, in RFC 3339. It is signed as it is written. Empty: never.
	// +kubebuilder:validation:Format=date-time
	// +optional
	ExpiresAt string `json:"expiresAt,omitempty"`
	// maxConnections that the workspace may open, for postgres with roles PerClaim. Absent: no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxConnections *int32 `json:"maxConnections,omitempty"`
}

// Permission is what a grant allows.
//
// +kubebuilder:validation:Enum=read-only;read-write
type Permission string

// The permissions.
const (
	PermissionReadOnly  Permission = "read-only"
	PermissionReadWrite Permission = "read-write"
)

// ResourceClaimStatus is what the operator decided on a claim.
type ResourceClaimStatus struct {
	// observedGeneration is the metadata.generation that this status describes. 0: not yet seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// verifiedOwner is the Datastore's owner whose signature was verified. While the owners' keys cannot be read, the claim stands for that
	// owner only. Empty: none was.
	// +optional
	VerifiedOwner string `json:"verifiedOwner,omitempty"`
	// conditions by type: Ready, Stalled, Denied, and RoleReady with roles PerClaim.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
