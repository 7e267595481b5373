// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

// Binding is one claim that names the Workspace, with the verdict on it.
type Binding struct {
	// Claim is never nil.
	Claim *v1alpha1.ResourceClaim
	// Approved says that the grant is valid and the workspace may use the datastore.
	Approved bool
	// Reason and Message say why not.
	Reason, Message string
	// Credentials is the managed Secret with the credentials in force. Nil: there are none yet.
	Credentials *corev1.Secret
	// Awaited says that the credentials may come at any moment: nothing is known yet that speaks against it.
	Awaited bool
}

// arrival is how long the first Deployment of a Workspace waits for credentials that are on their way: what is created together arrives
// together, and a second Deployment would be a second rollout. The API server's time stamps have full seconds.
const arrival = 2 * time.Second

// awaits is how much longer a Workspace that is new waits for the credentials of its approved claims. Zero: it does not.
func (in Input) awaits() time.Duration {
	left := arrival - in.Now.Sub(in.Workspace.CreationTimestamp.Time)
	begun := in.Workspace.Status.ObservedGeneration > 0 || in.Children.Deployment.Exists()
	if begun || left > arrival { // or the clocks differ
		return 0
	}
	for _, b := range in.Bindings {
		if b.Approved && b.Credentials == nil && b.Awaited {
			return max(0, left)
		}
	}
	return 0
}

// readOnly precedes the keys of a managed Secret that hold credentials for reading only.
const readOnly = "read-only-"

// part is one part of an endpoint.
type part struct{ key, variable string }

// uriKey is the key of the whole connection string in a managed Secret.
const uriKey = "uri"

// parts are the parts of an endpoint: their keys in a managed Secret, and the ends of the variables' names. Source: contract §4.
var parts = []part{
	{uriKey, "DSN"}, {"host", "HOST"}, {"port", "PORT"}, {"user", "USER"}, {"password", "PASSWORD"}, {"database", "DATABASE"},
}

// variable is the beginning of the names of a datastore's variables, without the prefix FORMSPEC_ or FORMA_.
func variable(datastore string) string {
	return "DATASTORE_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= '0' && r <= '9':
			return r
		default:
			return '_'
		}
	}, datastore)
}

// VariableOf is the key in a workspace's credentials Secret, and the name of the variable, of one part of a datastore's credentials, such as
// USER. Source: contract §4.
func VariableOf(datastore, part string) string { return "FORMSPEC_" + variable(datastore) + "_" + part }

// injected are the bindings in force with credentials, one for each datastore, by name. Of datastores whose variables would have the same
// names it is the one whose name sorts first.
func (in Input) injected() []Binding {
	sharers, byDatastore := in.sharers(), map[string]Binding{}
	for _, b := range in.Bindings {
		if datastore := b.Claim.Spec.Datastore; b.Credentials != nil && in.inForce(b) && sharers[variable(datastore)][0] == datastore {
			byDatastore[datastore] = b
		}
	}
	return slices.SortedFunc(maps.Values(byDatastore), func(a, b Binding) int {
		return strings.Compare(a.Claim.Spec.Datastore, b.Claim.Spec.Datastore)
	})
}

// standsIn says whether a claim that is superseded has to last, because the claim that supersedes it has no login of its own yet.
func (in Input) standsIn(b Binding) bool {
	if b.Reason != v1alpha1.ReasonSuperseded {
		return false
	}
	for _, other := range in.Bindings {
		if other.Claim.Spec.Datastore != b.Claim.Spec.Datastore || other.Credentials == nil || other.Claim == b.Claim {
			continue
		}
		if other.Approved || (other.Reason == v1alpha1.ReasonSuperseded && resourceclaim.Outranks(other.Claim, b.Claim)) {
			return false
		}
	}
	return true
}

// credentialData is what the credentials Secret holds: every variable of every approved claim, and nothing else.
func (in Input) credentialData() map[string][]byte {
	data := map[string][]byte{}
	for _, b := range in.injected() {
		data[VariableOf(b.Claim.Spec.Datastore, "PERMISSION")] = []byte(b.Claim.Spec.Permission)
		for part, value := range b.data() {
			data[VariableOf(b.Claim.Spec.Datastore, part)] = value
		}
	}
	return data
}

// data are the parts that the claim gets, by the ends of the variables' names. A user for reading only never gets a part of the other one's,
// such as its password. Without such a user there is at most a URI for reading only, which is for the one user that there is.
func (b Binding) data() map[string][]byte {
	data, all := map[string][]byte{}, b.Credentials.Data
	reads := b.Claim.Spec.Permission == v1alpha1.PermissionReadOnly
	apart := slices.ContainsFunc(parts, func(part part) bool { return part.key != uriKey && all[readOnly+part.key] != nil })
	for _, part := range parts {
		value, found := all[part.key]
		if limited, has := all[readOnly+part.key]; reads && (has || apart) {
			value, found = limited, has
		}
		if found {
			data[part.variable] = value
		}
	}
	return data
}

// credentialEnv refers to the credentials Secret for each variable. FORMA_… is the name that earlier tools read.
func (in Input) credentialEnv() []*corev1ac.EnvVarApplyConfiguration {
	secret := names.Credentials(in.Workspace.Name)
	refer := func(name, key string) *corev1ac.EnvVarApplyConfiguration {
		return corev1ac.EnvVar().WithName(name).WithValueFrom(
			corev1ac.EnvVarSource().WithSecretKeyRef(corev1ac.SecretKeySelector().WithName(secret).WithKey(key)))
	}
	data, _ := in.referred()
	var env []*corev1ac.EnvVarApplyConfiguration
	for _, key := range slices.Sorted(maps.Keys(data)) {
		env = append(env, refer(key, key))
		if strings.HasSuffix(key, "_DSN") {
			env = append(env, refer("FORMA_"+strings.TrimPrefix(key, "FORMSPEC_"), key))
		}
	}
	return env
}

// credentialRevision changes when a value behind the variables does, which rolls the pods: the credentials in force, and the permission,
// which is a variable itself and chooses among them. Of the credentials it has a random word and tells nothing about them. Empty: nothing
// is injected.
func (in Input) credentialRevision() string {
	injected := in.injected()
	if len(injected) == 0 {
		return ""
	}
	hash := sha256.New()
	for _, b := range injected {
		fmt.Fprintf(hash, "%s=%s %s\n", b.Claim.Spec.Datastore, b.Credentials.Annotations[v1alpha1.AnnotationRevision], b.Claim.Spec.Permission)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}
