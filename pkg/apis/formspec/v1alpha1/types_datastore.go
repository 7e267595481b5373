// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Datastore is a database, cache or object store that its owner shares with workspaces of the same namespace.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=fds,categories=formspec
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name="Owner",type=string,JSONPath=`.spec.owner`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Datastore struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what the datastore's owner registers.
	// +required
	Spec DatastoreSpec `json:"spec"`
	// status is written by the operator alone.
	// +optional
	Status DatastoreStatus `json:"status,omitempty"`
}

// DatastoreList is a list of Datastores.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type DatastoreList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the datastores.
	Items []Datastore `json:"items"`
}

// DatastoreSpec is what the datastore's owner registers.
type DatastoreSpec struct {
	// driver is the protocol that the datastore speaks.
	// +required
	Driver Driver `json:"driver"`
	// endpointSecretRef is where the connection string is, in the Datastore's own namespace.
	// +required
	EndpointSecretRef SecretKeyReference `json:"endpointSecretRef"`
	// allowedTenants are the workspaces that may hold a claim: "workspace:<name>", or "*" for all of the namespace. Empty: none.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	AllowedTenants []string `json:"allowedTenants,omitempty"`
	// owner is the name under which grants are signed; its keys are in the ConfigMap formspec-owner-keys of the operator's namespace.
	// +optional
	Owner string `json:"owner,omitempty"`
	// ownerPublicKey is the owner's ed25519 public key in hex (64 digits). An entry in formspec-owner-keys wins over it.
	// +optional
	OwnerPublicKey string `json:"ownerPublicKey,omitempty"`
	// capacity is what the datastore offers. It is shown and reported, never enforced by eviction.
	// +optional
	Capacity DatastoreCapacity `json:"capacity,omitempty"`
	// grantsNotBefore revokes every grant that was given before it. Absent: none is revoked.
	// +optional
	GrantsNotBefore *metav1.Time `json:"grantsNotBefore,omitempty"`
	// roles is Shared (every claim gets the endpoint's own credentials) or, for postgres, PerClaim (each claim gets a login role of its
	// own, which the operator creates with the endpoint's credentials). Default: Shared.
	// +optional
	Roles RolePolicy `json:"roles,omitempty"`
}

// Driver is the protocol that a datastore speaks.
//
// +kubebuilder:validation:Enum=sqlite;postgres;valkey;redis;s3;garage;minio;nats;memory;fs
type Driver string

// The drivers.
const (
	DriverSQLite   Driver = "sqlite"
	DriverPostgres Driver = "postgres"
	DriverValkey   Driver = "valkey"
	DriverRedis    Driver = "redis"
	DriverS3       Driver = "s3"
	DriverGarage   Driver = "garage"
	DriverMinIO    Driver = "minio"
	DriverNATS     Driver = "nats"
	DriverMemory   Driver = "memory"
	DriverFS       Driver = "fs"
)

// RolePolicy says whose credentials a claim gets.
//
// +kubebuilder:validation:Enum=Shared;PerClaim
type RolePolicy string

// The role policies. Empty means RolesShared.
const (
	RolesShared   RolePolicy = "Shared"
	RolesPerClaim RolePolicy = "PerClaim"
)

// SecretKeyReference names one key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// key in the Secret's data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Key string `json:"key"`
}

// DatastoreCapacity is what a datastore offers.
type DatastoreCapacity struct {
	// maxConnections that the datastore accepts. 0: unknown.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxConnections int32 `json:"maxConnections,omitempty"`
	// storageGB is its size in gigabytes. 0: unknown.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	StorageGB int32 `json:"storageGB,omitempty"`
}

// DatastoreStatus is what the operator observed of a datastore.
type DatastoreStatus struct {
	// observedGeneration is the metadata.generation that this status describes. 0: not yet seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions by type: Ready, Stalled, Validated, Denied, Overcommitted.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// claims counts the approved claims.
	// +optional
	Claims int32 `json:"claims,omitempty"`
	// claimedConnections adds up the maxConnections of the approved claims. Claims without a limit do not count.
	// +optional
	ClaimedConnections int32 `json:"claimedConnections,omitempty"`
	// storageGB is how much the data take up, in gigabytes of 2^30 bytes, rounded up. 0: unknown or nothing.
	// +optional
	StorageGB int64 `json:"storageGB,omitempty"`
	// listedOwner is the owner for whom formspec-owner-keys had an entry when it was last read. While it is absent, no spec.ownerPublicKey
	// counts for that owner, in any Datastore. An edit of spec.owner changes it only once the ConfigMap can be read. Empty: there was no
	// entry for the owner.
	// +optional
	ListedOwner string `json:"listedOwner,omitempty"`
}
