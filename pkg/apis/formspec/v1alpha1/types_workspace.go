// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Workspace is one tenant's running app: one Deployment of the generic image with its Service, ConfigMap, autoscaler and credentials.
//
// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ws,categories=formspec
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.clusterClass`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Workspace struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The annotations formspec.dev/artifact-binary-hash, formspec.dev/idle and
	// formspec.dev/keep-awake-until are read by the operator.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what the workspace owner asks for.
	// +required
	Spec WorkspaceSpec `json:"spec"`
	// status is written by the operator alone.
	// +optional
	Status WorkspaceStatus `json:"status,omitempty"`
}

// WorkspaceList is a list of Workspaces.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
type WorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the workspaces.
	Items []Workspace `json:"items"`
}

// WorkspaceSpec is what the workspace owner asks for.
type WorkspaceSpec struct {
	// owner is the fingerprint of the workspace owner's key. The operator does not check it.
	// +optional
	Owner string `json:"owner,omitempty"`
	// region whose nodes the workspace must run on, by the label formspec.dev/region. Empty: any region.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",message="must be a node label value, such as jakarta: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
	// +optional
	Region string `json:"region,omitempty"`
	// clusterClass is the name of the ClusterClass (the tier) that the workspace runs in.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	ClusterClass string `json:"clusterClass"`
	// cluster pins the workspace to the cluster of that name (the operator's --cluster-name). Empty: whichever cluster holds the object.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// environment whose nodes the workspace must run on, by the label formspec.dev/environment. Empty: any environment.
	// +optional
	Environment Environment `json:"environment,omitempty"`
	// resources of each replica. What is stated is both request and limit.
	// +optional
	Resources WorkspaceResources `json:"resources,omitempty"`
	// datastores that the app needs. The workspace is not Ready before each has an approved claim.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Datastores []DatastoreReference `json:"datastores,omitempty"`
	// cache lists the caches that the app needs. The workspace is not Ready before each has an approved claim.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Cache []DatastoreReference `json:"cache,omitempty"`
	// hosts are the DNS names under which the app is reached from outside, each under one of the class's hostSuffixes.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case, such as shop.apps.example.com"
	// +optional
	Hosts []string `json:"hosts,omitempty"`
}

// Environment separates production from other workloads.
//
// +kubebuilder:validation:Enum=prod;staging;dev
type Environment string

// The environments. Empty means any.
const (
	EnvironmentProd    Environment = "prod"
	EnvironmentStaging Environment = "staging"
	EnvironmentDev     Environment = "dev"
)

// WorkspaceResources are Kubernetes quantities.
type WorkspaceResources struct {
	// cpu of each replica, such as "2" or "500m". Empty: a request by class and no limit.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '' || (isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0)",message="must be a Kubernetes quantity that is not negative, such as 2 or 500m"
	// +optional
	CPU string `json:"cpu,omitempty"`
	// memory of each replica, such as "4Gi" or "512Mi". Empty: a request and a limit by class.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '' || (isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0)",message="must be a Kubernetes quantity that is not negative, such as 4Gi or 512Mi"
	// +optional
	Memory string `json:"memory,omitempty"`
}

// DatastoreReference names a Datastore in the workspace's own namespace.
type DatastoreReference struct {
	// name of the Datastore.
	// +optional
	Name string `json:"name,omitempty"`
	// type is the driver that the app expects. It must equal the Datastore's driver.
	// +optional
	Type string `json:"type,omitempty"`
}

// Phase is a one-word summary of a workspace.
type Phase string

// The phases of a workspace.
const (
	PhasePending     Phase = "Pending"
	PhaseReady       Phase = "Ready"
	PhaseDegraded    Phase = "Degraded"
	PhaseSleeping    Phase = "Sleeping"
	PhaseTerminating Phase = "Terminating"
)

// WorkspaceStatus is what the operator observed of a workspace.
type WorkspaceStatus struct {
	// observedGeneration is the metadata.generation that this status describes. 0: not yet seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions by type: Ready, Progressing, Degraded, Stalled, Admitted, DatastoresBound, NameCollision, AutoscalingActive, ScaleToZeroActive,
	// HostsAccepted, Overridden.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// phase is a one-word summary: Pending, Ready, Degraded, Sleeping or Terminating.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// readyReplicas counts the pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"` // also 0, for its column
	// admittedClass is the class whose slot the workspace holds. After a change of spec.clusterClass it is the old class until the new
	// one admits the workspace. Empty: none.
	// +optional
	AdmittedClass string `json:"admittedClass,omitempty"`
	// hosts are those of spec.hosts that lead to the workspace. It keeps them for as long as it claims them and its class allows them.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Hosts []string `json:"hosts,omitempty"`
	// firstReadyTime is when the workspace was first Ready. Idleness is counted from here.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// artifact is the newest artifact whose binary the pods were restarted for.
	// +optional
	Artifact *ArtifactStatus `json:"artifact,omitempty"`
}

// ArtifactStatus identifies an artifact. Newer means a higher cursor.
type ArtifactStatus struct {
	// hash of the artifact's binary; the pod template carries it as the annotation formspec.dev/artifact-binary-hash.
	// +optional
	Hash string `json:"hash,omitempty"`
	// version of the artifact, for people. Empty: unknown.
	// +optional
	Version string `json:"version,omitempty"`
	// cursor of the restart request at Cluster Control. 0: the hash came from the workspace's annotation.
	// +optional
	Cursor int64 `json:"cursor,omitempty"`
}
