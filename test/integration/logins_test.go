// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/test/servers"
)

// perClaim gives each claim a login of its own.
func perClaim(ds *v1alpha1.Datastore) { ds.Spec.Roles = v1alpha1.RolesPerClaim }

// administrator is a user that owns a database of the scenario's own and may make roles.
func (s *scenario) administrator() (*login, string) {
	s.Helper()
	admin := s.login()
	database := "d_" + rand.String(10)
	admin.server.Exec(s, fmt.Sprintf("ALTER ROLE %s CREATEROLE", admin.user), fmt.Sprintf("CREATE DATABASE %s OWNER %s", database, admin.user))
	return admin, strings.Replace(admin.uri(), "/app?", "/"+database+"?", 1)
}

// dsn is the connection string that containers of the Workspace get.
func (w *tenant) dsn() string {
	w.Helper()
	values, err := w.environmentOf()
	w.must("read what is injected", err)
	return values["FORMSPEC_DATASTORE_PG_DSN"]
}

// psql runs SQL as whoever the connection string says.
func (w *tenant) psql(uri, sql string) string {
	w.Helper()
	out, err := servers.Psql(w, uri, sql)
	if err != nil {
		w.Fatalf("%s: %v: %s", sql, err, out)
	}
	return out
}

// forbids checks that SQL fails for want of a right.
func (w *tenant) forbids(uri, sql string) {
	w.Helper()
	if out, err := servers.Psql(w, uri, sql); err == nil || !(strings.Contains(out, "permission denied") || strings.Contains(out, "read-only")) {
		w.Errorf("%s: %v: %s", sql, err, out)
	}
}

// refusesLogin waits until the connection string is of no use any more.
func (w *tenant) refusesLogin(uri string) {
	w.Helper()
	w.eventually("the login is refused", func() error {
		if out, err := servers.Psql(w, uri, "SELECT 1"); err == nil || !strings.Contains(out, "authentication failed") {
			return fmt.Errorf("psql prints %q (%w)", out, err)
		}
		return nil
	})
}

func (g *grant) roleReady() *grant {
	g.Helper()
	g.eventually("ResourceClaim "+g.name+" has its login", func() error {
		return claimSubject(g.get()).has(v1alpha1.ConditionRoleReady, metav1.ConditionTrue, v1alpha1.ReasonRoleInForce)
	})
	return g
}

func (g *grant) gone() {
	g.Helper()
	g.eventually("ResourceClaim "+g.name+" is gone", func() error {
		claim, err := g.formspec.FormspecV1alpha1().ResourceClaims(g.namespace).Get(g.Context(), g.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it has the finalizers %q (%w)", claim.Finalizers, err)
	})
}

// With roles PerClaim, what a Workspace gets is a login of its own with the rights of its claim, as long as it has the claim.
func TestRolesPerClaim(t *testing.T) {
	t.Parallel()
	s := given(t)
	me := s.publishedOwner()
	_, uri := s.administrator()
	pg := me.datastore("pg", v1alpha1.DriverPostgres, uri, perClaim).ready()
	class := s.class()
	claim := me.grant("shop", "pg", "shop", func(c *v1alpha1.ResourceClaim) { c.Spec.MaxConnections = new(int32(3)) })
	shop := s.workspace("shop", class, lists("pg", v1alpha1.DriverPostgres)).ready()
	claim.approved().roleReady()

	// its own login, which may read and write, with the claim's limit, and never the endpoint's
	dsn := shop.dsn()
	shop.injects(variables("pg", parts...)...)
	if dsn == "" || dsn == uri {
		t.Fatalf("the workspace gets the endpoint's own credentials")
	}
	shop.psql(dsn, "CREATE TABLE items (id int); INSERT INTO items VALUES (1), (2)")
	if got := shop.psql(dsn, "SELECT rolconnlimit FROM pg_roles WHERE rolname = session_user"); got != "3" {
		t.Errorf("the login's limit is %s", got)
	}
	before := len(shop.replicaSets()) // two, if the Workspace was there before the login
	if got := pg.get().Finalizers; !slices.Contains(got, v1alpha1.DatastoreRolesFinalizer) {
		t.Errorf("the Datastore has the finalizers %q", got)
	}

	s.eventually("the Datastore has counted the claim", func() error {
		if got := pg.get().Status.Claims; got != 1 {
			return fmt.Errorf("it counts %d", got)
		}
		return nil
	})

	// at rest, nobody writes anything
	start := s.now()
	s.lasts(2*time.Second, "nothing is written", func() error {
		if writes := s.sent(start, request.write, func(r request) bool { return r.resource() != "events" }); len(writes) > 0 {
			return fmt.Errorf("writes:%s", list(writes))
		}
		return nil
	})

	// when a rotation is asked for, then one rollout brings another password, and the old one is of no use
	claim.patch(`{"metadata":{"annotations":{"formspec.dev/rotate-credentials":"1"}}}`)
	shop.eventually("the password is another", func() error {
		if shop.dsn() == dsn {
			return errors.New("it is the same")
		}
		return firstError(rolledOutNow(shop.deployment()), readyNow(shop.get()))
	})
	shop.refusesLogin(dsn)
	dsn = shop.dsn()
	s.lasts(2*time.Second, "it was one rollout", func() error {
		if have := len(shop.replicaSets()); have != before+1 {
			return fmt.Errorf("there are %d ReplicaSets after %d", have, before)
		}
		return nil
	})
	if got := shop.psql(dsn, "SELECT count(*) FROM items"); got != "2" {
		t.Errorf("%s rows after the rotation", got)
	}

	// when the permission shrinks, then the login cannot write
	reduced := me.newClaim("shop", "pg", "shop", readOnly)
	claim.patch(fmt.Sprintf(`{"spec":{"permission":"read-only","grantedAt":%q,"signature":%q}}`, reduced.Spec.GrantedAt, reduced.Spec.Signature))
	claim.eventually("the login may only read", func() error {
		if out, err := servers.Psql(s, dsn, "INSERT INTO items SELECT 3 WHERE false"); err == nil {
			return fmt.Errorf("it may write: %s", out)
		}
		return nil
	})
	claim.roleReady()
	shop.forbids(shop.dsn(), "SET default_transaction_read_only = off; INSERT INTO items VALUES (3)")
	if got := shop.psql(shop.dsn(), "SELECT count(*) FROM items"); got != "2" {
		t.Errorf("%s rows for a reader", got)
	}

	// when the claim is deleted, then nothing is injected, the login is gone, and what it made stays
	dsn = shop.dsn()
	claim.delete()
	claim.gone()
	shop.refusesLogin(dsn)
	shop.injects()
	if got := shop.psql(uri, "SELECT count(*) FROM pg_tables WHERE tablename = 'items'"); got != "1" {
		t.Errorf("%s tables are left", got)
	}
	s.eventually("the Datastore may go", func() error {
		if got := pg.get().Finalizers; len(got) > 0 {
			return fmt.Errorf("it has the finalizers %q", got)
		}
		return nil
	})

	// and who gets a claim again finds it
	me.grant("again", "pg", "shop").roleReady()
	shop.injects(variables("pg", parts...)...)
	if got := shop.psql(shop.dsn(), "INSERT INTO items VALUES (3); SELECT count(*) FROM items"); !strings.HasSuffix(got, "3") {
		t.Errorf("%s rows for the new claim", got)
	}

	// when the Datastore is deleted, then it drops the logins first
	dsn = shop.dsn()
	pg.delete()
	shop.refusesLogin(dsn)
	shop.injects()
	s.eventually("the Datastore is gone", func() error {
		if _, err := s.formspec.FormspecV1alpha1().Datastores(s.namespace).Get(s.Context(), "pg", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
}
