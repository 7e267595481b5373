// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The labels that the operator sets on everything it makes.
const (
	// LabelManagedBy has the value ManagedBy on every child.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "formspec-operator"
	// LabelWorkspace has the workspace's name, shortened to a valid label value, on its children and pods.
	LabelWorkspace = "formspec.dev/workspace"
	// LabelDatastore has the datastore's name, shortened to a valid label value, on its managed Secret.
	LabelDatastore = "formspec.dev/datastore"
	// LabelClaim has the claim's name, shortened to a valid label value, on the Secret with its own login.
	LabelClaim = "formspec.dev/claim"
	// LabelRetained is "true" on a credentials Secret whose Workspace is gone.
	LabelRetained = "formspec.dev/retained"
)

// The node labels that place pods. Source: contract §2.
const (
	LabelEnvironment = "formspec.dev/environment"
	LabelTier        = "formspec.dev/tier"
	// LabelRegion on a ClusterClass stands in for an empty spec.region.
	LabelRegion   = "formspec.dev/region"
	LabelCapacity = "formspec.dev/capacity"
)

// The annotations that users and other controllers set, and those that the operator sets on children.
const (
	// AnnotationArtifactHash on a Workspace restarts its pods when the value changes; the pod template carries it.
	AnnotationArtifactHash = "formspec.dev/artifact-binary-hash"
	// AnnotationIdle "true" lets a workspace of a scaleToZero class sleep at once.
	AnnotationIdle = "formspec.dev/idle"
	// AnnotationKeepAwakeUntil (RFC 3339) holds a workspace awake.
	AnnotationKeepAwakeUntil = "formspec.dev/keep-awake-until"
	// AnnotationSleep on a Deployment says that the operator put it to sleep, and at which version of the activity Lease: "asleep 4711". On an
	// awake one it is "woken" where formspec.dev/idle was obeyed and a request came since.
	AnnotationSleep = "formspec.dev/sleep"
	// AnnotationRotateCredentials on a ResourceClaim makes a new password for its own login when the value changes.
	AnnotationRotateCredentials = "formspec.dev/rotate-credentials"
	// AnnotationUndecodable is on objects in the operator's memory only: what of the stored object does not fit its type.
	AnnotationUndecodable = "formspec.dev/undecodable"
	// AnnotationClusterClass on a Deployment is the class whose slot it takes up, until it is gone.
	AnnotationClusterClass = "formspec.dev/cluster-class"
	// AnnotationRetry on a Deployment changes from time to time while its pods are refused, so that they are tried again.
	AnnotationRetry = "formspec.dev/retry-refused-pods"
	// AnnotationOrigin on a managed Secret says which state of which endpoint Secret it was made from, or what a claim's login was made for.
	AnnotationOrigin = "formspec.dev/origin"
	// AnnotationRevision on a managed Secret is a random word that is new with each set of credentials.
	AnnotationRevision = "formspec.dev/revision"
	// AnnotationParts on a managed Secret lists the keys that were written.
	AnnotationParts = "formspec.dev/parts"
	// AnnotationCredentials on a pod template and on the credentials Secret that it refers to changes when the credentials do, and tells
	// nothing about them.
	AnnotationCredentials = "formspec.dev/credentials-revision"
	// AnnotationWorkspaceName on a credentials Secret, which has no owner reference, is the full name of its Workspace.
	AnnotationWorkspaceName = "formspec.dev/workspace-name"
)

// Where the activator works. Source: contract §6.
const (
	// ActivatorNamespace holds the activator and one Lease for each Workspace that had traffic, named by the Workspace's UID.
	ActivatorNamespace = "formspec-activator"
	// ActivatorService is the name of the Service whose EndpointSlices list the activator's pods, and the app.kubernetes.io/name of these.
	ActivatorService = "formspec-activator"
	// ActivatorPortName is the name of the port, in that Service and those pods, that takes the traffic of Workspaces.
	ActivatorPortName = "http"
	// LabelActivatorWorkspaceNamespace has the namespace of a Workspace on its Lease.
	LabelActivatorWorkspaceNamespace = "formspec.dev/workspace-namespace"
	// AnnotationStartingPage "true" on a ClusterClass shows browsers a page that reloads itself while a workspace wakes up.
	AnnotationStartingPage = "formspec.dev/starting-page"
)

// LegacyManager is the field manager of an operator for these kinds that wrote by updates. What it owns is taken over.
const LegacyManager = "formspec-operator"

// The finalizers.
const (
	// WorkspaceFinalizer lets the operator freeze and mark the credentials Secret before a Workspace goes.
	WorkspaceFinalizer = "formspec.dev/workspace"
	// ClusterClassFinalizer keeps a class from going while a Workspace names it.
	ClusterClassFinalizer = "formspec.dev/in-use"
	// RoleFinalizer lets the operator drop the login of a ResourceClaim before the claim goes.
	RoleFinalizer = "formspec.dev/role"
	// DatastoreRolesFinalizer keeps a Datastore, and so the credentials to drop logins with, while claims have logins on it.
	DatastoreRolesFinalizer = "formspec.dev/roles"
)

// The features that have an effect here. Source: contract §2.
const (
	FeatureAutoScaling     = "auto-scaling"
	FeatureCrossAZFailover = "cross-az-failover"
)

// The values of a class's availability and nodeType.
const (
	AvailabilityMultiAZ  = "multi-az"
	AvailabilitySingleAZ = "single-az"

	NodeTypeDedicated = "dedicated"
	NodeTypeShared    = "shared"
	NodeTypeDev       = "dev"
)
