// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// An absent formspec-owner-keys is an outage: what was verified stays, nothing new is approved. A removed line is a revocation.
func ownerKeysOutage(t *testing.T, env *environment) {
	t.Helper()
	s := givenIn(t, env)
	me, stranger := s.publishedOwner(), s.owner("-stranger")
	user, class := s.login(), s.class()
	me.datastore("pg", v1alpha1.DriverPostgres, user.uri(), func(ds *v1alpha1.Datastore) { ds.Spec.OwnerPublicKey = publicKey(stranger.key) })
	stranger.datastore("own", v1alpha1.DriverPostgres, user.uri(), func(ds *v1alpha1.Datastore) { ds.Spec.OwnerPublicKey = publicKey(stranger.key) })
	claim, own := me.grant("shop", "pg", "shop"), stranger.grant("own", "own", "shop")
	handed := me.datastore("handed", v1alpha1.DriverPostgres, user.uri())
	anybody := me.grant("anybody", "handed", "heir", func(c *v1alpha1.ResourceClaim) { c.Spec.GrantedBy = "" })
	heir := s.workspace("heir", class).ready().injects(variables("handed", parts...)...)
	anybody.approved()
	pretender := &owner{scenario: s, name: me.name, key: stranger.key}
	pretended := pretender.grant("pretended", "pg", "pretended")
	shop := s.workspace("shop", class, lists("pg", v1alpha1.DriverPostgres)).ready()
	s.workspace("pretended", class).ready()
	all := append(variables("pg", parts...), variables("own", parts...)...)
	shop.injects(all...)
	claim.approved()
	own.approved()
	pretended.denied(v1alpha1.ReasonSignatureMismatch)
	unavailable := func() error {
		subject := claimSubject(claim.get())
		return firstError(
			subject.has(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonOwnerKeysUnavailable),
			subject.has(v1alpha1.ConditionDenied, metav1.ConditionFalse, v1alpha1.ReasonOwnerKeysUnavailable),
			shop.injectedNow(all...), readyNow(shop.get()),
		)
	}

	// given somebody who may do no more than keep the keys
	keeper := s.namespace + "-keeper"
	_, err := s.cluster.kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(root, "manifests/30-user-roles.yaml"))
	s.must("apply the roles", err)
	s.grant("RoleBinding", systemNamespace, "Role", "formspec-owner-key-admin", keeper)

	// when
	start := s.now()
	configMaps := s.kube.CoreV1().ConfigMaps(systemNamespace)
	s.must("delete the keys", configMaps.Delete(t.Context(), v1alpha1.OwnerKeysConfigMap, metav1.DeleteOptions{}))
	restored := false
	restore := func() {
		if !restored {
			restored = true
			_, err := s.cluster.kubectlWith(contextBeyond(t), fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": {"name": %q}, "data": {%q: %q}}`, v1alpha1.OwnerKeysConfigMap, me.name, publicKey(me.key)),
				"-n", systemNamespace, "--as="+keeper, "apply", "--server-side", "--field-manager="+me.name, "-f", "-")
			s.must("create the keys as docs/grants.md says", err)
		}
	}
	s.Cleanup(restore)

	// then
	s.eventually("what was verified stays in force", unavailable)
	if err := heir.injectedNow(variables("handed", parts...)...); err != nil {
		t.Error(err)
	}
	handed.patch(fmt.Sprintf(`{"spec":{"owner":%q}}`, stranger.name)) // of whom the claim that names nobody is none
	anybody.denied(v1alpha1.ReasonOwnerKeysUnavailable)
	heir.injects()
	handed.remembers(me.name)

	// and another owner, who never published a key, notices nothing of what the edited Datastore remembers
	fresh := stranger.grant("fresh", "own", "fresh")
	s.workspace("fresh", class).injects(variables("own", parts...)...)
	fresh.approved()
	own.approved()

	// and a new Datastore convinces nobody of the owner's name with somebody else's key
	record := s.recordDeployments()
	statesKey := func(ds *v1alpha1.Datastore) { ds.Spec.OwnerPublicKey = publicKey(stranger.key) }
	pretender.datastore("forged", v1alpha1.DriverPostgres, user.uri(), statesKey).ready()
	seized := pretender.grant("seized", "forged", "seized")
	victim := s.workspace("seized", class).ready()
	seized.denied(v1alpha1.ReasonOwnerKeysUnavailable)
	late := me.grant("late", "pg", "late")
	newcomer := s.workspace("late", class, lists("pg", v1alpha1.DriverPostgres))
	late.denied(v1alpha1.ReasonOwnerKeysUnavailable)
	newcomer.failing(v1alpha1.ReasonOwnerKeysUnavailable, v1alpha1.OwnerKeysConfigMap)
	pretended.denied(v1alpha1.ReasonOwnerKeysUnavailable) // the weaker key does not step in for a published one
	own.approved()
	s.lasts(3*time.Second, "what was verified stays in force", unavailable)

	// when
	s.restart(syscall.SIGTERM)
	s.workspace("probe", class).ready()

	// then
	s.lasts(2*time.Second, "a new operator withdraws nothing", unavailable)
	late.denied(v1alpha1.ReasonOwnerKeysUnavailable)
	seized.denied(v1alpha1.ReasonOwnerKeysUnavailable)
	own.approved()
	fresh.approved()
	handed.patch(fmt.Sprintf(`{"spec":{"owner":%q}}`, me.name))
	handed.remembers(me.name)
	anybody.denied(v1alpha1.ReasonOwnerKeysUnavailable)
	for _, w := range []*tenant{newcomer, victim, heir, {scenario: s, name: "pretended"}} {
		if err := w.injectedNow(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	if writes := s.sent(start, about("deployments"), request.write, named(shop.deployment().Name)); len(writes) > 0 {
		t.Errorf("the outage moved a Deployment:%s", list(writes))
	}

	// when
	restore()

	// then
	claim.approved()
	late.approved()
	newcomer.ready()
	pretended.denied(v1alpha1.ReasonSignatureMismatch)
	seized.denied(v1alpha1.ReasonSignatureMismatch)
	anybody.approved()
	heir.injects(variables("handed", parts...)...)
	own.approved()
	fresh.approved()
	for _, d := range record() {
		if refs, err := injected(&d, victim.name); d.Name == victim.deployment().Name && (err != nil || len(refs) > 0) {
			t.Errorf("generation %d of the Deployment has the variables %v (%v)", d.Generation, refs, err)
		}
	}

	// when
	me.publish("# none any more")

	// then
	claim.denied(v1alpha1.ReasonMissingOwnerKey, "revoked")
	shop.injects(variables("own", parts...)...)
	shop.failing(v1alpha1.ReasonMissingOwnerKey)

	// when
	me.setEntry(nil) // the stranger's key is the Datastore's own

	// then
	claim.denied(v1alpha1.ReasonSignatureMismatch)
	pretended.approved()
	handed.remembers("")
}

// remembers waits until the Datastore of the present generation says for whom the ConfigMap had an entry.
func (d *store) remembers(owner string) {
	d.Helper()
	d.eventually("Datastore "+d.name+" remembers the owner", func() error {
		if ds := d.get(); ds.Status.ObservedGeneration != ds.Generation || ds.Status.ListedOwner != owner {
			return fmt.Errorf("generation %d of %d says %q, not %q", ds.Status.ObservedGeneration, ds.Generation, ds.Status.ListedOwner, owner)
		}
		return nil
	})
}

// A new key stands next to the old one until everything is signed with it; then the line of the old one goes, and with it what it signed.
func TestOwnerKeyRotation(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class := s.publishedOwner(), s.class()
	me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri()).ready()
	next := &owner{scenario: s, name: me.name, key: s.newKey()}
	early := next.grant("new", "pg", "new")
	old := me.grant("old", "pg", "old")
	first, second := s.workspace("old", class).ready().injects(variables("pg", parts...)...), s.workspace("new", class).ready()
	early.denied(v1alpha1.ReasonSignatureMismatch)

	// when
	me.publish(fmt.Sprintf("# until the end of the year\n%s\n\n# 2027\n%s\nno key\n", publicKey(me.key), publicKey(next.key)))

	// then
	early.approved()
	old.approved()
	second.injects(variables("pg", parts...)...)

	// when
	second.rolledOut()
	start := s.now()
	me.publish("# 2027\n" + publicKey(next.key))

	// then
	old.denied(v1alpha1.ReasonSignatureMismatch)
	first.injects()
	early.approved()
	if writes := s.sent(start, about("deployments"), request.write, named(second.deployment().Name)); len(writes) > 0 {
		t.Errorf("the removed line moved what another signed:%s", list(writes))
	}

	// when
	signed := old.get()
	next.sign(signed)
	old.patch(fmt.Sprintf(`{"spec":{"signature":%q}}`, signed.Spec.Signature))

	// then
	old.approved()
	first.injects(variables("pg", parts...)...)
}

// The owner of a datastore revokes what was granted before a moment.
func TestGrantsNotBefore(t *testing.T) {
	t.Parallel()
	s := given(t)
	me := s.publishedOwner()
	pg := me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri()).ready()
	claim := me.grant("pg", "pg", "shop", grantedAt(time.Now().Add(-time.Hour)))
	shop := s.workspace("shop", s.class(), lists("pg", v1alpha1.DriverPostgres)).ready()
	claim.approved()

	// when
	limit := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	pg.patch(fmt.Sprintf(`{"spec":{"grantsNotBefore":%q}}`, limit))

	// then
	claim.denied(v1alpha1.ReasonGrantRevoked, limit)
	shop.injects().failing(v1alpha1.ReasonGrantRevoked)

	// when
	again := claim.get()
	again.Spec.GrantedAt = limit
	me.sign(again)
	claim.patch(fmt.Sprintf(`{"spec":{"grantedAt":%q,"signature":%q}}`, limit, again.Spec.Signature))

	// then
	claim.approved()
	shop.injects(variables("pg", parts...)...).ready()
}

// Of several valid claims for a Workspace and a datastore the latest counts, and while one of them is valid the variables never vanish.
func TestLatestClaimCounts(t *testing.T) {
	t.Parallel()
	s := given(t)
	me := s.publishedOwner()
	me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri()).ready()
	now := time.Now()
	older := me.grant("older", "pg", "shop", readOnly, grantedAt(now.Add(-2*time.Hour)))
	shop := s.workspace("shop", s.class(), lists("pg", v1alpha1.DriverPostgres)).ready()
	older.approved()
	permission := func(want v1alpha1.Permission) {
		t.Helper()
		s.eventually("the permission is "+string(want), func() error {
			values, err := shop.environmentOf()
			if have := values["FORMSPEC_DATASTORE_PG_PERMISSION"]; err == nil && have != string(want) {
				return fmt.Errorf("it is %q", have)
			}
			return err
		})
	}
	permission(v1alpha1.PermissionReadOnly)
	record := s.recordDeployments()

	// when
	newer := me.grant("newer", "pg", "shop", grantedAt(now.Add(-time.Hour)))

	// then
	newer.approved()
	older.denied(v1alpha1.ReasonSuperseded, `"newer"`)
	permission(v1alpha1.PermissionReadWrite)

	// when
	newer.delete()

	// then
	older.approved()
	permission(v1alpha1.PermissionReadOnly)
	shop.ready()
	for _, d := range record() {
		if refs, err := injected(&d, "shop"); err != nil || len(refs) != len(variables("pg", parts...)) {
			t.Errorf("generation %d of the Deployment has the variables %v (%v)", d.Generation, refs, err)
		}
	}
}
