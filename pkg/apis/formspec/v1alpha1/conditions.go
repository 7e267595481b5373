// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The condition types. They are API: tools match on them. Source: contract §1.
const (
	// ConditionReady is on every kind. On a Workspace, True means that the rollout of this generation is complete and that at least
	// max(1, class minimum) replicas are available; Unknown means progressing; False means failure.
	ConditionReady = "Ready"
	// ConditionStalled is on every kind, True only while a user must act and gone otherwise. kstatus reads Failed from it.
	ConditionStalled = "Stalled"
	// ConditionProgressing on a Workspace is True while a rollout is under way.
	ConditionProgressing = "Progressing"
	// ConditionDegraded on a Workspace is True while it serves less than its class promises.
	ConditionDegraded = "Degraded"
	// ConditionDatastoresBound on a Workspace is True while each listed datastore and cache has an approved claim.
	ConditionDatastoresBound = "DatastoresBound"
	// ConditionNameCollision on a Workspace is True while a datastore that it was granted is not injected, because another one has the names of
	// its variables. Absent otherwise.
	ConditionNameCollision = "NameCollision"
	// ConditionAutoscalingActive on a Workspace mirrors its autoscaler: False while it cannot compute a replica count. Absent without autoscaling.
	ConditionAutoscalingActive = "AutoscalingActive"
	// ConditionScaleToZeroActive on a Workspace whose class scales to zero is True while it may fall asleep, and False with the reason why
	// not. Absent for other classes.
	ConditionScaleToZeroActive = "ScaleToZeroActive"
	// ConditionHostsAccepted on a Workspace is True while each of its spec.hosts leads to it. Absent without hosts.
	ConditionHostsAccepted = "HostsAccepted"
	// ConditionAdmitted on a Workspace is True once it holds one of its class's maxWorkspaces slots, which it keeps.
	ConditionAdmitted = "Admitted"
	// ConditionOverridden on a Workspace is True while a policy or webhook rewrites fields that the operator sets. Absent otherwise.
	ConditionOverridden = "Overridden"
	// ConditionValidated on a Datastore is True once its endpoint answered with the given credentials.
	ConditionValidated = "Validated"
	// ConditionOvercommitted on a Datastore is True while more is claimed or used than its capacity states. Absent otherwise.
	ConditionOvercommitted = "Overcommitted"
	// ConditionDenied on a ResourceClaim or Datastore is True while nothing may be injected, with the reason.
	ConditionDenied = "Denied"
	// ConditionRoleReady on a ResourceClaim is True once its own login is in force, with roles PerClaim. Absent otherwise.
	ConditionRoleReady = "RoleReady"
	// ConditionInUse on a ClusterClass is True while a Workspace names it, with the count.
	ConditionInUse = "InUse"
	// ConditionUnenforcedFeatures on a ClusterClass names what the class promises and the operator does not enforce. Absent if there is nothing.
	ConditionUnenforcedFeatures = "UnenforcedFeatures"
)

// The reasons of a Workspace's conditions. They are API: tools match on them. Source: contract §1.
const (
	// ReasonAvailable: the rollout is complete and enough replicas are available.
	ReasonAvailable = "Available"
	// ReasonRolloutInProgress: the Deployment is bringing up the pods of this generation.
	ReasonRolloutInProgress = "RolloutInProgress"
	// ReasonRolloutComplete of Progressing: nothing is being rolled out.
	ReasonRolloutComplete = "RolloutComplete"
	// ReasonMinimumUnavailable: fewer replicas are available than the class promises, though the rollout was complete before.
	ReasonMinimumUnavailable = "MinimumReplicasUnavailable"
	// ReasonDeadlineExceeded: the rollout made no progress for the Deployment's progress deadline.
	ReasonDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonTerminating: the Workspace is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonAsleep: the Workspace sleeps at zero replicas.
	ReasonAsleep = "Asleep"
	// ReasonWaking: the Workspace was woken and its first pods are starting.
	ReasonWaking = "Waking"
	// ReasonWakeFailed: the Workspace was woken and did not become ready in time, or fell asleep before it was.
	ReasonWakeFailed = "WakeFailed"
	// ReasonClusterClassNotFound: spec.clusterClass names no ClusterClass. Running pods keep the last applied settings.
	ReasonClusterClassNotFound = "ClusterClassNotFound"
	// ReasonAdmitted: the Workspace holds one of its class's slots.
	ReasonAdmitted = "Admitted"
	// ReasonClassFull: the class's maxWorkspaces slots are taken.
	ReasonClassFull = "ClassFull"
	// ReasonQuotaExceeded: a ResourceQuota of the namespace refuses the objects or the pods.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonRefused: an admission policy, a webhook or the API server's validation refuses an object or the pods.
	ReasonRefused = "Refused"
	// ReasonUnschedulable: no node takes the pods.
	ReasonUnschedulable = "Unschedulable"
	// ReasonImagePullBackOff: a node cannot pull the image.
	ReasonImagePullBackOff = "ImagePullBackOff"
	// ReasonCrashLoopBackOff: a container ends again and again.
	ReasonCrashLoopBackOff = "CrashLoopBackOff"
	// ReasonContainerFailed: a container cannot be created or started; the message has the kubelet's words.
	ReasonContainerFailed = "ContainerFailed"
	// ReasonNameConflict: an object that is not ours has the name of one of our children.
	ReasonNameConflict = "NameConflict"
	// ReasonRegionMismatch: the Workspace and its class name different regions.
	ReasonRegionMismatch = "RegionMismatch"
	// ReasonOtherCluster: spec.cluster names another cluster; this one runs nothing of the Workspace.
	ReasonOtherCluster = "OtherCluster"
	// ReasonTypeMismatch: a listed datastore's type differs from the Datastore's driver.
	ReasonTypeMismatch = "TypeMismatch"
	// ReasonInvalidSpec: a field has a value that nothing can be made of; the message names it.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonUnpinnedImage: the image has no version, or the version "latest".
	ReasonUnpinnedImage = "UnpinnedImage"
	// ReasonOverridden: a policy or webhook rewrites fields that the operator sets; the message names them.
	ReasonOverridden = "Overridden"
	// ReasonInternalError: the operator itself failed on this object; its log has the details.
	ReasonInternalError = "InternalError"
	// ReasonNoneListed: the Workspace lists no datastore and no cache.
	ReasonNoneListed = "NoneListed"
	// ReasonBound: each listed datastore and cache has an approved claim.
	ReasonBound = "Bound"
	// ReasonClaimMissing: a listed datastore has no ResourceClaim for the workspace.
	ReasonClaimMissing = "ClaimMissing"
	// ReasonNotValidated: a listed datastore has an approved claim, and no credentials that were ever found to work.
	ReasonNotValidated = "NotValidated"
	// ReasonNameCollision: two datastores would be injected under the same variable names; the message names both.
	ReasonNameCollision = "NameCollision"
	// ReasonScalingActive: the autoscaler computes replica counts.
	ReasonScalingActive = "ScalingActive"
	// ReasonIdleWatched: the Workspace falls asleep after a window without requests.
	ReasonIdleWatched = "IdleWatched"
	// ReasonScaledByKEDA: the KEDA HTTP add-on decides when the Workspace sleeps.
	ReasonScaledByKEDA = "ScaledByKEDA"
	// ReasonScaleToZeroOff: the operator runs with --scale-to-zero=off.
	ReasonScaleToZeroOff = "ScaleToZeroOff"
	// ReasonNoActivator: no activator pod is ready, so nobody could wake a Workspace.
	ReasonNoActivator = "NoActivator"
	// ReasonKEDANotInstalled: the operator runs with --scale-to-zero=keda-http, and the cluster has no HTTPScaledObject.
	ReasonKEDANotInstalled = "KEDANotInstalled"
	// ReasonKeptAwake: the annotation formspec.dev/keep-awake-until holds the Workspace awake.
	ReasonKeptAwake = "KeptAwake"
	// ReasonInvalidAnnotation: an annotation has a value that nothing can be made of; the message names it.
	ReasonInvalidAnnotation = "InvalidAnnotation"
	// ReasonSelectorHeld: somebody else's selector stays on the Workspace's Service, so requests pass the activator by.
	ReasonSelectorHeld = "SelectorHeld"
	// ReasonHostsAccepted: each of the Workspace's hosts leads to it.
	ReasonHostsAccepted = "HostsAccepted"
	// ReasonHostConflict: another Workspace claimed one of the hosts earlier; the message names it.
	ReasonHostConflict = "HostConflict"
	// ReasonHostNotAllowed: a host is under none of the class's hostSuffixes.
	ReasonHostNotAllowed = "HostNotAllowed"
)

// The reasons of a ClusterClass's conditions. Source: contract §1.
const (
	// ReasonAccepted: workspaces can use the class.
	ReasonAccepted = "Accepted"
	// ReasonNotInUse: no Workspace names the class.
	ReasonNotInUse = "NotInUse"
	// ReasonInUse: Workspaces name the class; it is deleted after the last of them.
	ReasonInUse = "InUse"
	// ReasonUnenforcedFeatures: the class names features, an SLA or a storage kind that have no effect here.
	ReasonUnenforcedFeatures = "UnenforcedFeatures"
)

// The reasons of a Datastore's conditions. Source: contract §1.
const (
	// ReasonProbing: the endpoint was not probed yet.
	ReasonProbing = "Probing"
	// ReasonOvercommitted: more is claimed or used than the capacity states.
	ReasonOvercommitted = "Overcommitted"
	// ReasonSecretNotFound: spec.endpointSecretRef names no Secret.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretTypeRefused: the Secret is of a kind that holds no connection string.
	ReasonSecretTypeRefused = "SecretTypeRefused"
	// ReasonTrimmed of an Event: line ends at the end of the connection string are left out.
	ReasonTrimmed = "ConnectionStringTrimmed"
	// ReasonSecretKeyEmpty: the Secret lacks the key, or its value is empty.
	ReasonSecretKeyEmpty = "SecretKeyEmpty"
	// ReasonValidated: the endpoint answered, with the given credentials where it knows any.
	ReasonValidated = "Validated"
	// ReasonInvalidConnectionString: the connection string is none that the driver understands; the message says what is wrong with it.
	ReasonInvalidConnectionString = "InvalidConnectionString"
	// ReasonUnsupportedOption: the connection string has an option that names a file, a service or a way of authentication that the
	// operator does not use; the message names it.
	ReasonUnsupportedOption = "UnsupportedOption"
	// ReasonUnsupportedTLSMode: the connection string asks for TLS in a way that does not exist or that verifies nothing where it must.
	ReasonUnsupportedTLSMode = "UnsupportedTLSMode"
	// ReasonInvalidCertificateAuthority: the certificate authority in the Secret is no PEM certificate.
	ReasonInvalidCertificateAuthority = "InvalidCertificateAuthority"
	// ReasonNotProbed: the driver has nothing to probe; the connection string was checked by form only.
	ReasonNotProbed = "NotProbed"
	// ReasonSharedAdminCredentials: the endpoint's user is a superuser, and every claim gets it.
	ReasonSharedAdminCredentials = "SharedAdminCredentials"
	// ReasonRoleRefused: the endpoint's user may not manage roles, or what it finds on the server is not the operator's; the message has
	// the details.
	ReasonRoleRefused = "RoleRefused"
	// ReasonTLSVerificationFailed: the server's certificate does not verify.
	ReasonTLSVerificationFailed = "TLSVerificationFailed"
	// ReasonAuthenticationFailed: the server refuses the credentials.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonPermissionDenied: the credentials are right, and their user may not use the database.
	ReasonPermissionDenied = "PermissionDenied"
	// ReasonDatabaseNotFound: the credentials are right, and the server has no such database.
	ReasonDatabaseNotFound = "DatabaseNotFound"
	// ReasonTooManyConnections: the server or the user has no connection left.
	ReasonTooManyConnections = "TooManyConnections"
	// ReasonServerNotReady: the server answers that it cannot serve now, such as while it starts.
	ReasonServerNotReady = "ServerNotReady"
	// ReasonUnreachable: no answer from the server within the deadline.
	ReasonUnreachable = "Unreachable"
)

// The reasons of a ResourceClaim's conditions. Source: contract §1 and §4.
const (
	// ReasonClaimVerified: the grant is valid and the workspace may use the datastore.
	ReasonClaimVerified = "ClaimVerified"
	// ReasonTenantNotAllowed: the Datastore's allowedTenants do not include the workspace.
	ReasonTenantNotAllowed = "TenantNotAllowed"
	// ReasonSignatureMismatch: the signature is none of the owner's keys over this grant.
	ReasonSignatureMismatch = "SignatureMismatch"
	// ReasonInvalidSignature: the signature is not 128 hex digits, or a signed field cannot be signed.
	ReasonInvalidSignature = "InvalidSignature"
	// ReasonMissingSignature: there is no signature.
	ReasonMissingSignature = "MissingSignature"
	// ReasonMissingOwnerKey: no key is known for the Datastore's owner.
	ReasonMissingOwnerKey = "MissingOwnerKey"
	// ReasonInvalidOwnerKey: the owner's key is not a usable ed25519 public key.
	ReasonInvalidOwnerKey = "InvalidOwnerKey"
	// ReasonDatastoreNotFound: spec.datastore names no Datastore in the namespace.
	ReasonDatastoreNotFound = "DatastoreNotFound"
	// ReasonWorkspaceNotFound: spec.workspace names no Workspace in the namespace.
	ReasonWorkspaceNotFound = "WorkspaceNotFound"
	// ReasonNameTooLong: no variable can be named after the Datastore.
	ReasonNameTooLong = "NameTooLong"
	// ReasonGrantorNotOwner: grantedBy is not the Datastore's owner.
	ReasonGrantorNotOwner = "GrantorNotOwner"
	// ReasonGrantRevoked: the grant is older than the Datastore's grantsNotBefore.
	ReasonGrantRevoked = "GrantRevoked"
	// ReasonGrantVersionRefused: the operator's --min-grant-version is higher than the grant's.
	ReasonGrantVersionRefused = "GrantVersionRefused"
	// ReasonNotYetValid: grantedAt is in the future.
	ReasonNotYetValid = "NotYetValid"
	// ReasonExpired: expiresAt has passed.
	ReasonExpired = "Expired"
	// ReasonSignatureNotChecked of Denied=False: the claim was approved without a look at its signature (--insecure-skip-signature-verify).
	ReasonSignatureNotChecked = "SignatureNotChecked"
	// ReasonSuperseded: a later grant for the same workspace and datastore is in force.
	ReasonSuperseded = "Superseded"
	// ReasonRoleInForce: the claim's own login was made as the claim says.
	ReasonRoleInForce = "RoleInForce"
	// ReasonRolePending: the claim's own login is being made or dropped.
	ReasonRolePending = "RolePending"
	// ReasonRoleReplaced: the workspace has another login; the claim's own goes once no pod runs with it.
	ReasonRoleReplaced = "RoleReplaced"
	// ReasonRoleLeftBehind of an Event: the claim went before its login could be dropped, which is on the server still.
	ReasonRoleLeftBehind = "RoleLeftBehind"
	// ReasonOwnerKeysUnavailable: the owner keys cannot be read; what was verified before stays in force.
	ReasonOwnerKeysUnavailable = "OwnerKeysUnavailable"
)

// The reasons of the Events about Cluster Control, on the operator's Lease. No condition has them: Workspaces are not affected.
const (
	// ReasonClusterControlUnreachable says that reports wait; the message has the endpoint and what went wrong.
	ReasonClusterControlUnreachable = "ClusterControlUnreachable"
	// ReasonClusterControlReachable says that what waited is being sent.
	ReasonClusterControlReachable = "ClusterControlReachable"
)
