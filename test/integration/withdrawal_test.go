// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/test/servers"
)

// What may not be used any more is taken away even where nothing else may be changed.
func TestWithdrawalFromABlockedWorkspace(t *testing.T) {
	t.Parallel()
	for name, block := range map[string]func(*tenant, *v1alpha1.ClusterClass){
		v1alpha1.ReasonRegionMismatch: func(w *tenant, class *v1alpha1.ClusterClass) {
			w.patchClass(class, `{"spec":{"region":"here"}}`)
			w.patch(`{"spec":{"region":"there"}}`)
		},
		v1alpha1.ReasonClusterClassNotFound: func(w *tenant, _ *v1alpha1.ClusterClass) { w.patch(`{"spec":{"clusterClass":"no-such-class"}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			me, class := s.publishedOwner(), s.class()
			me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri()).ready()
			me.datastore("stays", v1alpha1.DriverRedis, s.redisURI()).ready()
			claim := me.grant("pg", "pg", "shop")
			me.grant("stays", "stays", "shop")
			left := variables("stays", "DSN", "HOST", "PORT", "PASSWORD", "PERMISSION")
			shop := s.workspace("shop", class).ready().injects(append(variables("pg", parts...), left...)...)
			block(shop, class)
			shop.failing(name)
			if err := shop.injectedNow(append(variables("pg", parts...), left...)...); err != nil {
				t.Error(err)
			}

			// when
			claim.delete()

			// then
			shop.injects(left...)
			shop.rolledOut()
			shop.failing(name)
		})
	}
}

// A datastore that cannot be injected keeps nothing of another in force.
func TestWithdrawalBesideANameThatIsTooLong(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class, long := s.publishedOwner(), s.class(), strings.Repeat("a", 240)
	for _, name := range []string{"goes", "stays", long} {
		me.datastore(name, v1alpha1.DriverRedis, s.redisURI()).ready()
	}
	claim := me.grant("goes", "goes", "shop")
	me.grant("stays", "stays", "shop")
	goes, stays := ofRedis("goes"), ofRedis("stays")
	shop := s.workspace("shop", class).ready().injects(append(goes, stays...)...)
	me.grant("long", long, "shop").denied(v1alpha1.ReasonNameTooLong, "240 characters", "223")

	// when
	claim.delete()

	// then
	shop.injects(stays...).ready()
}

func ofRedis(datastore string) []string {
	return variables(datastore, "DSN", "HOST", "PORT", "PASSWORD", "PERMISSION")
}

// No pod gets what was withdrawn, also where the Secret cannot be changed any more.
func TestWithdrawalFromAnImmutableSecret(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class := s.publishedOwner(), s.class()
	me.datastore("goes", v1alpha1.DriverRedis, s.redisURI()).ready()
	me.datastore("stays", v1alpha1.DriverRedis, s.redisURI()).ready()
	claim := me.grant("goes", "goes", "shop")
	me.grant("stays", "stays", "shop")
	stays := ofRedis("stays")
	shop := s.workspace("shop", class).ready().injects(append(ofRedis("goes"), stays...)...)
	s.patchSecret(names.Credentials("shop"), `{"immutable":true}`)

	// when
	claim.delete()

	// then
	s.eventually("the variables are gone", func() error {
		values, err := shop.environmentOf()
		if have := slices.Sorted(maps.Keys(values)); err == nil && !slices.Equal(have, slices.Sorted(slices.Values(stays))) {
			return fmt.Errorf("the variables are %q, want %q", have, stays)
		}
		return err
	})
	shop.failing(v1alpha1.ReasonRefused, "immutable", "kubectl delete secret "+names.Credentials("shop")+" -n "+s.namespace)
	shop.rolledOut()

	// when
	s.kubectl("delete", "secret", names.Credentials("shop"))

	// then
	shop.injects(stays...).ready()
}

// A claim stands for one Workspace, as long as the datastore's owner lets that in.
func TestTenants(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class := s.publishedOwner(), s.class()
	pg := me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri(), func(ds *v1alpha1.Datastore) {
		ds.Spec.AllowedTenants = []string{"workspace:one", "workspace:two"}
	}).ready()
	claim := me.grant("claim", "pg", "one")
	one, two := s.workspace("one", class).ready(), s.workspace("two", class).ready()
	all := variables("pg", parts...)
	one.injects(all...)
	two.injects()

	// when the owner signs it for another
	moved := claim.get()
	moved.Spec.Workspace = "two"
	me.sign(moved)
	claim.patch(fmt.Sprintf(`{"spec":{"workspace":"two","signature":%q}}`, moved.Spec.Signature))

	// then
	one.injects()
	two.injects(all...)
	claim.approved()

	// when
	pg.patch(`{"spec":{"allowedTenants":["workspace:one"]}}`)

	// then
	claim.denied(v1alpha1.ReasonTenantNotAllowed, "workspace:two")
	two.injects()

	// when
	pg.patch(`{"spec":{"allowedTenants":["*"]}}`)

	// then
	claim.approved()
	two.injects(all...)
}

// A claim for reading gets a session that is read-only, or the user for reading if the endpoint Secret has one.
func TestReadOnlyClaims(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class, user, reader := s.publishedOwner(), s.class(), s.login(), s.login()
	me.datastore("pg", v1alpha1.DriverPostgres, user.uri())
	s.secret("pair", map[string]string{endpointKey: user.uri(), endpointKey + "-read-only": reader.uri()})
	me.datastore("pair", v1alpha1.DriverPostgres, "")
	me.grant("pg", "pg", "reads", readOnly)
	me.grant("pair", "pair", "reads", readOnly)
	me.grant("writes", "pair", "writes")
	reads, writes := s.workspace("reads", class), s.workspace("writes", class)
	reads.injects(append(variables("pg", parts...), variables("pair", parts...)...)...)
	writes.injects(variables("pair", parts...)...)

	values, err := reads.environmentOf()
	s.must("read the environment", err)
	if out, err := servers.Psql(t, values["FORMSPEC_DATASTORE_PG_DSN"], "CREATE SCHEMA never_"+user.user); err == nil {
		t.Errorf("a session for reading writes: %s", out)
	}
	for end, want := range map[string]string{"USER": reader.user, "PASSWORD": reader.password, "PERMISSION": "read-only"} {
		if have := values["FORMSPEC_DATASTORE_PAIR_"+end]; have != want {
			t.Errorf("who reads has the %s %q, want %q", end, have, want)
		}
	}
	if err := s.connects(values["FORMSPEC_DATASTORE_PAIR_DSN"], reader.user); err != nil {
		t.Error(err)
	}
	values, err = writes.environmentOf()
	s.must("read the environment", err)
	if out, err := servers.Psql(t, values["FORMSPEC_DATASTORE_PAIR_DSN"], "CREATE SCHEMA "+user.user); err != nil {
		t.Errorf("who may write does not: %v %s", err, out)
	}
}

// A datastore that somebody deletes and makes again is used again, and a managed Secret that somebody changes is put right.
func TestReplacedDatastores(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class, user := s.publishedOwner(), s.class(), s.login()
	pg := me.datastore("pg", v1alpha1.DriverPostgres, user.uri()).ready()
	me.grant("pg", "pg", "shop")
	shop := s.workspace("shop", class, lists("pg", v1alpha1.DriverPostgres)).ready()
	inForce := func() error {
		secret := pg.managed()
		if secret == nil || string(secret.Data["password"]) != user.password || !metav1.IsControlledBy(secret, pg.get()) {
			return fmt.Errorf("the managed Secret is %v", secret)
		}
		values, err := shop.environmentOf()
		if have := values["FORMSPEC_DATASTORE_PG_PASSWORD"]; err == nil && have != user.password {
			return fmt.Errorf("the password in the environment is %q", have)
		}
		return firstError(err, pg.readyNow(), readyNow(shop.get()))
	}

	// when
	pg.delete()
	s.register(me.newDatastore("pg", v1alpha1.DriverPostgres))

	// then
	s.eventually("the new Datastore is used", inForce)

	// when
	s.patchSecret(pg.managed().Name, `{"stringData":{"password":"another","user":"another"}}`)

	// then
	s.eventually("the managed Secret is as it was", inForce)

	// when
	s.kubectl("delete", "secret", pg.managed().Name)

	// then
	s.eventually("the managed Secret is back", inForce)
}
