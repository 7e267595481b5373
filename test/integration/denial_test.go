// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// A grant that is not its owner's, or not for this, injects nothing at any moment, and says why. All datastores of this test work: it is
// only the grants that are no good.
func TestDeniedClaimsInjectNothing(t *testing.T) {
	t.Parallel()
	s := given(t)
	s.secret("endpoint", map[string]string{endpointKey: s.login().uri()})
	me, stranger := s.publishedOwner(), s.owner("-stranger")
	zero, unknown := s.owner("-zero"), s.owner("-unknown")
	zero.publish(strings.Repeat("0", 64))
	s.Cleanup(func() { zero.setEntry(nil) })

	type change = func(*v1alpha1.ResourceClaim)
	rows := map[string]struct {
		owner     *owner // of the datastore
		datastore func(*v1alpha1.Datastore)
		signer    *owner
		before    change // signing
		after     change
		sign      change // instead
		reason    string
	}{
		"tampered":   {before: readOnly, after: func(c *v1alpha1.ResourceClaim) { c.Spec.Permission = v1alpha1.PermissionReadWrite }, reason: v1alpha1.ReasonSignatureMismatch},
		"backdated":  {after: func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt = "2020-01-01T00:00:00Z" }, reason: v1alpha1.ReasonSignatureMismatch},
		"unsigned":   {after: func(c *v1alpha1.ResourceClaim) { c.Spec.Signature = "" }, reason: v1alpha1.ReasonMissingSignature},
		"not-hex":    {after: func(c *v1alpha1.ResourceClaim) { c.Spec.Signature = "hex-encoded-ed25519" }, reason: v1alpha1.ReasonInvalidSignature},
		"wrong-key":  {signer: &owner{scenario: s, name: me.name, key: stranger.key}, reason: v1alpha1.ReasonSignatureMismatch},
		"no-key":     {owner: unknown, signer: unknown, reason: v1alpha1.ReasonMissingOwnerKey},
		"zero-key":   {owner: zero, signer: zero, sign: s.forge, reason: v1alpha1.ReasonInvalidOwnerKey},
		"zero-own":   {owner: unknown, signer: unknown, sign: s.forge, datastore: func(ds *v1alpha1.Datastore) { ds.Spec.OwnerPublicKey = strings.Repeat("0", 64) }, reason: v1alpha1.ReasonInvalidOwnerKey},
		"own-key":    {signer: stranger, before: grantedBy(me.name), datastore: func(ds *v1alpha1.Datastore) { ds.Spec.OwnerPublicKey = publicKey(stranger.key) }, reason: v1alpha1.ReasonSignatureMismatch},
		"expired":    {before: both(version2(time.Now().Add(-5*time.Second)), grantedAt(time.Now().Add(-time.Hour))), reason: v1alpha1.ReasonExpired},
		"early":      {before: grantedAt(time.Now().Add(time.Hour)), reason: v1alpha1.ReasonNotYetValid},
		"workspace":  {before: func(c *v1alpha1.ResourceClaim) { c.Spec.Workspace = "another" }, after: func(c *v1alpha1.ResourceClaim) { c.Spec.Workspace = "shop" }, reason: v1alpha1.ReasonSignatureMismatch},
		"datastore":  {before: func(c *v1alpha1.ResourceClaim) { c.Spec.Datastore = "another" }, after: func(c *v1alpha1.ResourceClaim) { c.Spec.Datastore = c.Name }, reason: v1alpha1.ReasonSignatureMismatch},
		"separator":  {sign: func(c *v1alpha1.ResourceClaim) { me.signText(c, "%s|%s|%s|%s|%s") }, before: func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedAt += "|2030-01-01T00:00:00Z" }, reason: v1alpha1.ReasonInvalidSignature},
		"end-of-v1":  {sign: func(c *v1alpha1.ResourceClaim) { me.signText(c, "%s|%s|%s|%s|%s") }, before: func(c *v1alpha1.ResourceClaim) { c.Spec.ExpiresAt = "2099-01-01T00:00:00Z" }, reason: v1alpha1.ReasonInvalidSignature},
		"namespace":  {before: both(version2(time.Time{}), inNamespace("another")), after: inNamespace(s.namespace), reason: v1alpha1.ReasonSignatureMismatch},
		"cluster":    {before: version2(time.Time{}), sign: func(c *v1alpha1.ResourceClaim) { me.signFor(c, "another") }, reason: v1alpha1.ReasonSignatureMismatch},
		"v1-as-v2":   {after: version2(time.Time{}), reason: v1alpha1.ReasonSignatureMismatch},
		"permission": {sign: func(c *v1alpha1.ResourceClaim) { me.signText(c, "%s|%s|%s|%s|%s") }, before: func(c *v1alpha1.ResourceClaim) { c.Spec.Permission = "" }, reason: v1alpha1.ReasonInvalidSpec},
		"tenant": {datastore: func(ds *v1alpha1.Datastore) {
			ds.Spec.AllowedTenants = []string{"workspace:another", "shop", "workspace:sho", "workspace:shop2"}
		}, reason: v1alpha1.ReasonTenantNotAllowed},
		"nobody":  {datastore: func(ds *v1alpha1.Datastore) { ds.Spec.AllowedTenants = nil }, reason: v1alpha1.ReasonTenantNotAllowed},
		"grantor": {signer: stranger, reason: v1alpha1.ReasonGrantorNotOwner},
		"revoked": {before: grantedAt(time.Now().Add(-time.Hour)), datastore: func(ds *v1alpha1.Datastore) { now := metav1.Now(); ds.Spec.GrantsNotBefore = &now }, reason: v1alpha1.ReasonGrantRevoked},
		"good":    {},
	}
	names := slices.Sorted(maps.Keys(rows))
	for _, name := range names {
		row := rows[name]
		if row.owner == nil {
			row.owner = me
		}
		s.register(row.owner.newDatastore(name, v1alpha1.DriverPostgres, func(ds *v1alpha1.Datastore) {
			ds.Spec.EndpointSecretRef.Name = "endpoint"
			if row.datastore != nil {
				row.datastore(ds)
			}
		}))
	}
	for _, name := range names {
		(&store{scenario: s, name: name}).ready()
	}

	// when
	record := s.recordDeployments()
	shop := s.workspace("shop", s.class())
	for _, name := range names {
		row := rows[name]
		if row.signer == nil {
			row.signer = me
		}
		claim := row.signer.unsigned(name, name, "shop")
		if row.sign == nil {
			row.sign = row.signer.sign
		}
		for _, step := range []change{row.before, row.sign, row.after} {
			if step != nil {
				step(claim)
			}
		}
		s.claim(claim)
	}

	// then
	for _, name := range names {
		claim := &grant{scenario: s, name: name}
		if name == "good" {
			claim.approved()
			continue
		}
		claim.denied(rows[name].reason)
	}
	shop.injects(variables("good", parts...)...).ready()
	for _, d := range record() {
		refs, err := injected(&d, "shop")
		s.must("read the environment", err)
		for variable := range refs {
			if !slices.Contains(variables("good", parts...), variable) {
				t.Errorf("generation %d of the Deployment has %s", d.Generation, variable)
			}
		}
	}
}

// unsigned is a claim without its signature.
func (o *owner) unsigned(name, datastore, workspace string) *v1alpha1.ResourceClaim {
	o.Helper()
	claim := o.newClaim(name, datastore, workspace)
	claim.Spec.Signature = ""
	return claim
}

func both(changes ...func(*v1alpha1.ResourceClaim)) func(*v1alpha1.ResourceClaim) {
	return func(claim *v1alpha1.ResourceClaim) {
		for _, f := range changes {
			f(claim)
		}
	}
}

func grantedBy(name string) func(*v1alpha1.ResourceClaim) {
	return func(claim *v1alpha1.ResourceClaim) { claim.Spec.GrantedBy = name }
}

func inNamespace(name string) func(*v1alpha1.ResourceClaim) {
	return func(claim *v1alpha1.ResourceClaim) { claim.Namespace = name }
}

// signText signs what our own code refuses to sign.
func (o *owner) signText(claim *v1alpha1.ResourceClaim, format string) {
	spec := claim.Spec
	message := fmt.Sprintf(format, spec.Datastore, spec.Workspace, spec.Permission, spec.GrantedBy, spec.GrantedAt)
	claim.Spec.Signature = hex.EncodeToString(ed25519.Sign(o.key, []byte(message)))
}

// signFor signs for another cluster.
func (o *owner) signFor(claim *v1alpha1.ResourceClaim, cluster string) {
	o.Helper()
	var err error
	claim.Spec.Signature, err = v1alpha1.SignGrant(claim, cluster, o.key)
	o.must("sign a claim", err)
}

// forge makes a signature that verifies with a key of zeros, which anyone can.
func (s *scenario) forge(claim *v1alpha1.ResourceClaim) {
	s.Helper()
	signature := make([]byte, ed25519.SignatureSize) // S is zero, and R is a point of small order
	for second := range 100 {
		claim.Spec.GrantedAt = time.Date(2026, 1, 1, 0, second/60, second%60, 0, time.UTC).Format(time.RFC3339)
		message, err := v1alpha1.GrantMessage(claim, clusterName)
		s.must("make the message", err)
		if ed25519.Verify(make(ed25519.PublicKey, ed25519.PublicKeySize), message, signature) {
			claim.Spec.Signature = hex.EncodeToString(signature)
			return
		}
	}
	s.Fatal("no signature can be forged: the test is wrong")
}

// recordDeployments notes every state of the namespace's Deployments from now on. What it returns is to be called once; it returns the states.
func (s *scenario) recordDeployments() (states func() []appsv1.Deployment) {
	s.Helper()
	api := s.kube.AppsV1().Deployments(s.namespace)
	list, err := api.List(s.Context(), metav1.ListOptions{})
	s.must("list the Deployments", err)
	watching, err := api.Watch(s.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	s.must("watch the Deployments", err)
	s.Cleanup(watching.Stop)
	found := list.Items
	take := func(event watch.Event) {
		s.Helper()
		d, ok := event.Object.(*appsv1.Deployment)
		if !ok {
			s.Fatalf("the watch of Deployments ended: %v", event.Object)
		}
		found = append(found, *d)
	}
	// The buffer of the watch is small, so somebody has to read.
	events, ended := make(chan watch.Event, 10000), make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watching.ResultChan() {
			events <- event
		}
	}()
	return func() []appsv1.Deployment {
		s.Helper()
		last, err := api.List(s.Context(), metav1.ListOptions{})
		s.must("list the Deployments", err)
		for _, d := range last.Items { // until they have been seen
			for !slices.ContainsFunc(found, func(f appsv1.Deployment) bool { return f.UID == d.UID && f.ResourceVersion == d.ResourceVersion }) {
				select {
				case event := <-events:
					take(event)
				case <-ended:
					s.Fatal("the watch of Deployments ended")
				case <-s.Context().Done():
					s.Fatal("the test has no time left")
				}
			}
		}
		return found
	}
}
