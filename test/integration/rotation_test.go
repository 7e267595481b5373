// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Pods run with the credentials that work: new ones reach them by exactly one rollout, and only once they are known to work. FR-15.
func TestRotation(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, user := s.publishedOwner(), s.login()
	pg := me.datastore("pg", v1alpha1.DriverPostgres, user.uri()).ready()
	class := s.class()
	var shops []*tenant
	for i := range 3 {
		name := fmt.Sprintf("shop-%d", i)
		me.grant(name, "pg", name)
		shops = append(shops, s.workspace(name, class, lists("pg", v1alpha1.DriverPostgres)).ready())
	}
	expect := func(what string, replicaSets int, password string) {
		t.Helper()
		for _, shop := range shops {
			shop.eventually(what+": "+shop.name, func() error {
				if have := len(shop.replicaSets()); have != replicaSets {
					return fmt.Errorf("there are %d ReplicaSets, want %d", have, replicaSets)
				}
				values, err := shop.environmentOf()
				if have := values["FORMSPEC_DATASTORE_PG_PASSWORD"]; err == nil && have != password {
					return fmt.Errorf("the password is %q, want %q", have, password)
				}
				return firstError(err, rolledOutNow(shop.deployment()), readyNow(shop.get()))
			})
		}
	}
	unmoved := func(what string, replicaSets int, password string) {
		t.Helper()
		s.lasts(3*time.Second, what, func() error {
			for _, shop := range shops {
				if have := len(shop.replicaSets()); have != replicaSets {
					return fmt.Errorf("%s has %d ReplicaSets, want %d", shop.name, have, replicaSets)
				}
			}
			return nil
		})
		expect(what, replicaSets, password)
	}
	first := user.password
	expect("at first", 1, first)

	// when the password changes
	start := s.now()
	user.changePassword("second")
	pg.connect(user.uri())

	// then each Workspace rolls once
	expect("after a good rotation", 2, "second")
	unmoved("after a good rotation", 2, "second")
	if writes := s.sent(start, about("deployments"), wrote); len(writes) != len(shops) {
		t.Errorf("%d writes to %d Deployments:%s", len(writes), len(shops), list(writes))
	}

	// when the connection string becomes useless
	pg.connect(user.uriWith("wrong"))

	// then what worked stays
	pg.failing(v1alpha1.ReasonAuthenticationFailed, "127.0.0.1", "stay in force")
	if err := datastoreSubject(pg.get()).has(v1alpha1.ConditionDenied, metav1.ConditionTrue, v1alpha1.ReasonAuthenticationFailed); err != nil {
		t.Error(err)
	}
	unmoved("after a bad rotation", 2, "second")
	pg.connect("postgres://not a connection string")
	pg.failing(v1alpha1.ReasonInvalidConnectionString, "stay in force")
	pg.patchSecret("pg", `{"data":{"connection-string":null}}`)
	pg.failing(v1alpha1.ReasonSecretKeyEmpty, "stay in force")
	unmoved("without a key", 2, "second")

	// when the same comes back, and when only metadata changes
	pg.connect(user.uri() + "\n")
	pg.ready()
	unmoved("with what is in force already", 2, "second")
	start = s.now()
	s.kubectl("label", "secret", "pg", "example.com/hint=label")
	s.kubectl("annotate", "secret", "pg", "example.com/hint=annotation")
	unmoved("after an edit of metadata", 2, "second")
	if writes := s.sent(start, about("deployments"), request.write); len(writes) > 0 {
		t.Errorf("metadata of the endpoint Secret moved a Deployment:%s", list(writes))
	}

	// when it goes, then comes back with another password
	s.kubectl("delete", "secret", "pg")
	pg.failing(v1alpha1.ReasonSecretNotFound, `"pg"`)
	unmoved("without the endpoint Secret", 2, "second")
	user.changePassword("third")
	s.secret("pg", map[string]string{endpointKey: user.uri()})
	expect("with a new endpoint Secret", 3, "third")
	pg.ready()
}
