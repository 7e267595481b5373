// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// Secret is the Secret with the credentials of the claim's own login.
type Secret = reconcile.Child[*corev1.Secret, *corev1ac.SecretApplyConfiguration]

// Place is where a login is: with the claim, it names it.
type Place struct{ Datastore, Workspace string }

func (p Place) String() string { return p.Datastore + "/" + p.Workspace }

// Login is everything that a claim's login is made for. Another one is made anew.
type Login struct {
	Place
	// DatastoreUID and Admin, the revision of its credentials, stand for the server.
	DatastoreUID types.UID
	Admin        string
	// Permission and MaxConnections are the claim's.
	Permission     v1alpha1.Permission
	MaxConnections *int32
	// Rotate is the claim's annotation. Another value asks for another password.
	Rotate string
}

// String is what the Secret keeps as its origin. The parts that others choose have no slash: the first two are names of objects.
func (l Login) String() string {
	limit := ""
	if l.MaxConnections != nil {
		limit = strconv.Itoa(int(*l.MaxConnections))
	}
	return strings.Join([]string{l.Datastore, l.Workspace, string(l.DatastoreUID), l.Admin, string(l.Permission), limit, l.rotation()}, "/")
}

func (l Login) rotation() string {
	if l.Rotate == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(l.Rotate))
	return hex.EncodeToString(sum[:])[:16]
}

func rotationOf(origin string) string { return origin[strings.LastIndex(origin, "/")+1:] }

// LoginPlace is where the login of the claim is if it has one: where its Secret says, or else where the claim says.
func LoginPlace(claim *v1alpha1.ResourceClaim, secret *corev1.Secret) Place {
	place := Place{claim.Spec.Datastore, claim.Spec.Workspace}
	if secret != nil && metav1.IsControlledBy(secret, claim) {
		if parts := strings.SplitN(secret.Annotations[v1alpha1.AnnotationOrigin], "/", 3); len(parts) == 3 {
			place = Place{parts[0], parts[1]}
		}
	}
	return place
}

// Place is where the claim's login is if it has one.
func (in Input) Place() Place { return LoginPlace(in.Claim, in.Role.Secret.Live) }

// granted is where the claim's login is to be.
func (in Input) granted() Place { return LoginPlace(in.Claim, nil) }

func (in Input) login() Login {
	spec := in.Claim.Spec
	return Login{
		Place: in.granted(), DatastoreUID: in.Datastore.UID, Admin: in.Role.Admin,
		Permission: spec.Permission, MaxConnections: spec.MaxConnections, Rotate: in.Claim.Annotations[v1alpha1.AnnotationRotateCredentials],
	}
}

func (in Input) owned() bool { return metav1.IsControlledBy(in.Role.Secret.Live, in.Claim) }

// origin is what the login in force was made for.
func (in Input) origin() string {
	if !in.Role.Secret.Exists() {
		return ""
	}
	return in.Role.Secret.Live.Annotations[v1alpha1.AnnotationOrigin]
}

// secret is the Secret with a new login. New credentials get a new revision, which rolls the pods that use them and tells nothing about
// them.
func (in Input) secret(login Login, data map[string][]byte) *corev1ac.SecretApplyConfiguration {
	revision := in.Role.Revision
	if in.loginInForce() && maps.EqualFunc(in.Role.Secret.Ours.Data, data, bytes.Equal) {
		revision = in.Role.Secret.Live.Annotations[v1alpha1.AnnotationRevision]
	}
	return in.filled(login.String(), revision, data)
}

// unchanged is the Secret as it was written last.
func (in Input) unchanged() *corev1ac.SecretApplyConfiguration {
	return in.filled(in.origin(), in.Role.Secret.Live.Annotations[v1alpha1.AnnotationRevision], in.Role.Secret.Ours.Data)
}

func (in Input) filled(origin, revision string, data map[string][]byte) *corev1ac.SecretApplyConfiguration {
	return in.blank().
		WithAnnotations(map[string]string{
			v1alpha1.AnnotationOrigin: origin, v1alpha1.AnnotationRevision: revision, v1alpha1.AnnotationParts: reconcile.CredentialParts(data),
		}).
		WithData(data)
}

// blank is the Secret of a claim without a login.
func (in Input) blank() *corev1ac.SecretApplyConfiguration {
	claim := in.Claim
	return corev1ac.Secret(names.Claim(claim.Name), claim.Namespace).
		WithLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelClaim: names.Label(claim.Name)}).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.SchemeGroupVersion.String()).WithKind("ResourceClaim").WithName(claim.Name).WithUID(claim.UID).
			WithController(true).WithBlockOwnerDeletion(true)).
		WithType(corev1.SecretTypeOpaque)
}
