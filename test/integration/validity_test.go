// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// leeway is how far an owner's clock may be ahead. An end has none.
const leeway = time.Minute

// A grant begins and ends by itself, to the second. FR-46.
func TestValidity(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class := s.publishedOwner(), s.class()
	pg := me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri()).ready()
	all := variables("pg", parts...)
	begin := func(name string, change ...func(*v1alpha1.ResourceClaim)) (*grant, *tenant) {
		t.Helper()
		shop := s.workspace(name, class).ready()
		return me.grant(name, pg.name, name, change...), shop
	}
	now := time.Now().Truncate(time.Second)

	// given a clock that is 5 s ahead, a grant of tomorrow, and one that has ended 5 s ago
	ahead, aheadShop := begin("ahead", grantedAt(now.Add(30*time.Second)))
	future, futureShop := begin("future", grantedAt(now.Add(24*time.Hour)))
	ended, endedShop := begin("ended", version2(now.Add(-5*time.Second)), grantedAt(now.Add(-time.Hour)))
	endless, endlessShop := begin("endless", version2(time.Time{}))
	ahead.approved()
	aheadShop.injects(all...)
	future.denied(v1alpha1.ReasonNotYetValid, "not yet valid until", now.Add(24*time.Hour).UTC().Format(time.RFC3339))
	ended.denied(v1alpha1.ReasonExpired)
	endless.approved()
	endlessShop.injects(all...)
	for _, shop := range []*tenant{futureShop, endedShop} {
		if err := shop.injectedNow(); err != nil {
			t.Error(err)
		}
	}

	// one that begins, and one that ends, while we look
	startsShop, endsShop := s.workspace("starts", class).ready(), s.workspace("ends", class).ready()
	now = time.Now().Truncate(time.Second)
	start, end := now.Add(leeway+12*time.Second), now.Add(20*time.Second)
	starts := me.grant("starts", "pg", "starts", grantedAt(start))
	ends := me.grant("ends", "pg", "ends", version2(end), grantedAt(now.Add(-time.Hour)))
	starts.denied(v1alpha1.ReasonNotYetValid)
	ends.approved()
	endsShop.injects(all...)

	starts.approved()
	startsShop.injects(all...)
	if at := since(starts.get(), v1alpha1.ConditionReady); at.Before(start.Add(-leeway)) || at.After(start.Add(-leeway+5*time.Second)) {
		t.Errorf("a grant of %s was approved at %s, want %s before that", start, at, leeway)
	}

	ends.denied(v1alpha1.ReasonExpired, end.UTC().Format(time.RFC3339))
	endsShop.injects()
	if late := time.Since(end); late > 15*time.Second {
		t.Errorf("the variables were there %s after the end", late)
	}
	if at := since(ends.get(), v1alpha1.ConditionDenied); at.Before(end) || at.After(end.Add(5*time.Second)) {
		t.Errorf("a grant until %s was withdrawn at %s", end, at)
	}
	endsShop.ready()
}

// since is when a condition got its status.
func since(claim *v1alpha1.ResourceClaim, conditionType string) time.Time {
	if c := meta.FindStatusCondition(claim.Status.Conditions, conditionType); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// What is granted beyond the capacity of a datastore is said, and nothing is taken away for it.
func TestOvercommitment(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class := s.publishedOwner(), s.class()
	pg := me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri(), func(ds *v1alpha1.Datastore) { ds.Spec.Capacity.MaxConnections = 100 }).ready()
	connections := func(n int32) func(*v1alpha1.ResourceClaim) {
		return func(claim *v1alpha1.ResourceClaim) { claim.Spec.MaxConnections = &n }
	}
	claimed := func(claims, connections int32, over bool) {
		t.Helper()
		s.eventually(fmt.Sprintf("%d claims have %d connections", claims, connections), func() error {
			ds := pg.get()
			if ds.Status.Claims != claims || ds.Status.ClaimedConnections != connections {
				return fmt.Errorf("%d claims have %d", ds.Status.Claims, ds.Status.ClaimedConnections)
			}
			if !over {
				return datastoreSubject(ds).lacks(v1alpha1.ConditionOvercommitted)
			}
			return datastoreSubject(ds).has(v1alpha1.ConditionOvercommitted, "True", v1alpha1.ReasonOvercommitted, strconv.Itoa(int(connections)), "100")
		})
	}

	// when
	me.grant("one", "pg", "one", connections(60))
	me.grant("two", "pg", "two", connections(40))
	me.grant("unlimited", "pg", "unlimited")
	me.grant("elsewhere", "pg", "nobody", connections(1000)) // waits for its Workspace
	for _, name := range []string{"one", "two", "unlimited"} {
		s.workspace(name, class).ready().injects(variables("pg", parts...)...)
	}

	// then
	claimed(3, 100, false)
	more := me.grant("more", "pg", "more", connections(1))
	shop := s.workspace("more", class).ready()
	claimed(4, 101, true)
	shop.injects(variables("pg", parts...)...)
	pg.ready()
	more.patch(`{"spec":{"maxConnections":null}}`)
	claimed(4, 100, false)
	more.patch(`{"spec":{"maxConnections":41}}`)
	claimed(4, 141, true)
	more.delete()
	claimed(3, 100, false)
}
