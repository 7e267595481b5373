// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/ed25519"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

const (
	// clusterName is the --cluster-name of the shared operator, which grants of version 2 are bound to.
	clusterName = "it-cluster"
	// systemNamespace is the operator's own.
	systemNamespace = "formspec-system"
)

// owner signs for datastores. Its name is unlike that of any other scenario's owner, because all publish their keys in one ConfigMap.
type owner struct {
	*scenario
	name string
	key  ed25519.PrivateKey
}

// owner makes a key pair for an owner of the scenario, and does not publish it.
func (s *scenario) owner(suffix string) *owner {
	s.Helper()
	return &owner{scenario: s, name: s.namespace + suffix, key: s.newKey()}
}

func (s *scenario) newKey() ed25519.PrivateKey {
	s.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	s.must("make a key", err)
	return private
}

// publicKey is what formspec-owner-keys has of a key.
func publicKey(private ed25519.PrivateKey) string {
	return v1alpha1.FormatPublicKey(private.Public().(ed25519.PublicKey))
}

// publishedOwner is the owner of the scenario, with its key in formspec-owner-keys.
func (s *scenario) publishedOwner() *owner {
	s.Helper()
	o := s.owner("")
	o.publish(publicKey(o.key))
	s.Cleanup(func() { o.setEntry(nil) })
	return o
}

// publish replaces the owner's entry.
func (o *owner) publish(entry string) {
	o.Helper()
	o.setEntry(&entry)
}

// setEntry replaces the owner's entry, or removes it.
func (o *owner) setEntry(entry *string) {
	o.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]*string{o.name: entry}})
	o.must("encode a patch", err)
	_, err = o.kube.CoreV1().ConfigMaps(systemNamespace).Patch(contextBeyond(o), v1alpha1.OwnerKeysConfigMap,
		types.MergePatchType, patch, metav1.PatchOptions{})
	o.must("publish a key", err)
}

// grant is one ResourceClaim.
type grant struct {
	*scenario
	name string
}

// newClaim is the claim of a Workspace for a datastore with an owner's signature, as it would be created. Changes are made before it is signed.
func (o *owner) newClaim(name, datastore, workspace string, change ...func(*v1alpha1.ResourceClaim)) *v1alpha1.ResourceClaim {
	o.Helper()
	claim := &v1alpha1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.namespace},
		Spec: v1alpha1.ResourceClaimSpec{
			Datastore: datastore, Workspace: workspace, Permission: v1alpha1.PermissionReadWrite,
			GrantedBy: o.name, GrantedAt: time.Now().UTC().Format(time.RFC3339),
		},
	}
	for _, f := range change {
		f(claim)
	}
	o.sign(claim)
	return claim
}

func (o *owner) sign(claim *v1alpha1.ResourceClaim) {
	o.Helper()
	var err error
	claim.Spec.Signature, err = v1alpha1.SignGrant(claim, clusterName, o.key)
	o.must("sign a claim", err)
}

// version2 makes it a grant of version 2, which ends unless the time is zero.
func version2(end time.Time) func(*v1alpha1.ResourceClaim) {
	return func(claim *v1alpha1.ResourceClaim) {
		claim.Spec.GrantVersion = v1alpha1.GrantVersion2
		if !end.IsZero() {
			claim.Spec.ExpiresAt = end.UTC().Format(time.RFC3339)
		}
	}
}

func grantedAt(at time.Time) func(*v1alpha1.ResourceClaim) {
	return func(claim *v1alpha1.ResourceClaim) { claim.Spec.GrantedAt = at.UTC().Format(time.RFC3339) }
}

func readOnly(claim *v1alpha1.ResourceClaim) { claim.Spec.Permission = v1alpha1.PermissionReadOnly }

// grant creates a signed claim.
func (o *owner) grant(name, datastore, workspace string, change ...func(*v1alpha1.ResourceClaim)) *grant {
	o.Helper()
	return o.claim(o.newClaim(name, datastore, workspace, change...))
}

// claim creates a claim as it is.
func (s *scenario) claim(claim *v1alpha1.ResourceClaim) *grant {
	s.Helper()
	_, err := s.formspec.FormspecV1alpha1().ResourceClaims(s.namespace).Create(s.Context(), claim, metav1.CreateOptions{})
	s.must("create the ResourceClaim", err)
	return &grant{scenario: s, name: claim.Name}
}

func (g *grant) get() *v1alpha1.ResourceClaim {
	g.Helper()
	claim, err := g.formspec.FormspecV1alpha1().ResourceClaims(g.namespace).Get(g.Context(), g.name, metav1.GetOptions{})
	g.must("get the ResourceClaim", err)
	return claim
}

func (g *grant) patch(patch string) {
	g.Helper()
	_, err := g.formspec.FormspecV1alpha1().ResourceClaims(g.namespace).
		Patch(g.Context(), g.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	g.must("patch the ResourceClaim", err)
}

func (g *grant) delete() {
	g.Helper()
	g.must("delete the ResourceClaim", g.formspec.FormspecV1alpha1().ResourceClaims(g.namespace).Delete(g.Context(), g.name, metav1.DeleteOptions{}))
}

// approved waits until the claim is Ready, and not denied.
func (g *grant) approved() *grant {
	g.Helper()
	g.eventually("ResourceClaim "+g.name+" is Ready", func() error {
		subject := claimSubject(g.get())
		return firstError(
			subject.has(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonClaimVerified),
			subject.has(v1alpha1.ConditionDenied, metav1.ConditionFalse, ""),
		)
	})
	return g
}

// denied waits until the claim is denied for a reason, with each of the texts in its message.
func (g *grant) denied(reason string, texts ...string) {
	g.Helper()
	g.eventually("ResourceClaim "+g.name+" is denied: "+reason, func() error { return deniedNow(g.get(), reason, texts...) })
}

func deniedNow(claim *v1alpha1.ResourceClaim, reason string, texts ...string) error {
	subject := claimSubject(claim)
	return firstError(
		subject.has(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, texts...),
		subject.has(v1alpha1.ConditionDenied, metav1.ConditionTrue, reason, texts...),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
