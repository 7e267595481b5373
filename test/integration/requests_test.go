// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// A burst costs one read per Datastore, that of its endpoint Secret, and nothing else; what can be decided at once is written once.
func TestRequestsOfABurst(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class, user := s.publishedOwner(), s.class(), s.login()
	const burst = 30
	read := func(r request) bool { return !r.write() }

	// when
	start := s.now()
	var shops []*tenant
	for i := range burst {
		pg, shop := fmt.Sprintf("pg-%d", i), fmt.Sprintf("shop-%d", i)
		me.datastore(pg, v1alpha1.DriverPostgres, user.uri())
		me.grant(shop, pg, shop)
		shops = append(shops, s.workspace(shop, class, lists(pg, v1alpha1.DriverPostgres)))
	}
	for _, shop := range shops {
		shop.ready()
	}

	// then
	reads := s.sent(start, read)
	for i := range burst {
		name := fmt.Sprintf("pg-%d", i)
		if of := filter(reads, about("secrets"), named(name)); len(of) != 1 {
			t.Errorf("the endpoint Secret %s was read %d times, want 1", name, len(of))
		}
	}
	if len(reads) != burst {
		t.Errorf("%d reads, want %d:%s", len(reads), burst, list(reads))
	}

	// when
	start = s.now()
	var late []*tenant
	for i := range burst / 3 {
		name := fmt.Sprintf("late-%d", i)
		me.grant(name, fmt.Sprintf("pg-%d", i), name)
		me.grant(name+"-2", fmt.Sprintf("pg-%d", (i+1)%burst), name)
		late = append(late, s.workspace(name, class, lists(fmt.Sprintf("pg-%d", i), v1alpha1.DriverPostgres)))
	}
	for i, shop := range late {
		shop.ready().injects(append(variables(fmt.Sprintf("pg-%d", i), parts...), variables(fmt.Sprintf("pg-%d", (i+1)%burst), parts...)...)...)
	}

	// then
	all := s.sent(start)
	if err := nothing(filter(all, read)); err != nil {
		t.Errorf("credentials that are in force were read again: %v", err)
	}
	for _, shop := range late {
		for resource, name := range map[string]string{"deployments": names.Deployment(shop.name), "secrets": names.Credentials(shop.name)} {
			if writes := filter(all, about(resource), named(name)); len(writes) != 1 {
				t.Errorf("%d writes of %s, want 1:%s", len(writes), name, list(writes))
			}
		}
	}
}
