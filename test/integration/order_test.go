// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// arrival is how long after the last piece a Workspace may take to become Ready: 10 s, and on a busy machine six times as long as one that
// lacks nothing. Who waits for a next round of something takes longer. FR-16.
func (s *scenario) arrival(class *v1alpha1.ClusterClass) time.Duration {
	s.Helper()
	start := time.Now()
	s.workspace("plain", class).ready()
	return max(10*time.Second, 6*time.Since(start))
}

// Whatever comes last completes the Workspace: each piece once, with the others before it in both directions.
func TestPiecesInAnyOrder(t *testing.T) {
	t.Parallel()
	pieces := []string{"class", "secret", "key", "datastore", "claim", "workspace"}
	for i, last := range pieces {
		others := slices.Delete(slices.Clone(pieces), i, i+1)
		for range 2 {
			order := append(slices.Clone(others), last)
			slices.Reverse(others)
			t.Run(strings.Join(order, " "), func(t *testing.T) {
				t.Parallel()
				s := given(t)
				me, user, limit := s.owner(""), s.login(), s.arrival(s.class())
				class := &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
				shop := &tenant{scenario: s, name: "shop"}
				there := map[string]bool{}
				create := map[string]func(){
					"class": func() {
						s.class(func(c *v1alpha1.ClusterClass) { c.GenerateName, c.Name = "", class.Name })
					},
					"secret":    func() { s.secret("pg", map[string]string{endpointKey: user.uri()}) },
					"key":       func() { me.publish(publicKey(me.key)); s.Cleanup(func() { me.setEntry(nil) }) },
					"datastore": func() { me.datastore("pg", v1alpha1.DriverPostgres, "") },
					"claim":     func() { me.grant("pg", "pg", "shop") },
					"workspace": func() { s.workspace("shop", class, lists("pg", v1alpha1.DriverPostgres)) },
				}
				for _, piece := range order[:len(order)-1] {
					create[piece]()
					there[piece] = true
					s.eventually("the operator has looked at the "+piece, func() error { return s.lookedAt(there) })
					if there["workspace"] {
						if readyNow(shop.get()) == nil {
							t.Fatalf("the Workspace is Ready with %v only", slices.Sorted(maps.Keys(there)))
						}
					}
				}

				// when
				start := time.Now()
				create[last]()

				// then
				s.within(limit, "the Workspace is Ready once the "+last+" is there", func() error { return readyNow(shop.get()) })
				t.Logf("Ready %s after the %s, of %s", time.Since(start).Round(10*time.Millisecond), last, limit)
				if err := shop.injectedNow(variables("pg", parts...)...); err != nil {
					t.Error(err)
				}
				(&store{scenario: s, name: "pg"}).ready()
				(&grant{scenario: s, name: "pg"}).approved()
				for _, subject := range []subject{
					workspaceSubject(shop.get()), datastoreSubject((&store{scenario: s, name: "pg"}).get()), claimSubject((&grant{scenario: s, name: "pg"}).get()),
				} {
					if err := subject.lacks(v1alpha1.ConditionStalled); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// lookedAt returns an error unless the operator has seen what is there.
func (s *scenario) lookedAt(there map[string]bool) error {
	var subjects []subject
	if there["workspace"] {
		subjects = append(subjects, workspaceSubject((&tenant{scenario: s, name: "shop"}).get()))
	}
	if there["datastore"] {
		subjects = append(subjects, datastoreSubject((&store{scenario: s, name: "pg"}).get()))
	}
	if there["claim"] {
		subjects = append(subjects, claimSubject((&grant{scenario: s, name: "pg"}).get()))
	}
	for _, o := range subjects {
		if o.observed == 0 || o.observed != o.generation {
			return fmt.Errorf("it has not looked at %s", o.name)
		}
	}
	return nil
}

// A Secret without the key is waited for like one that is not there.
func TestKeyOfEndpointSecretComesLater(t *testing.T) {
	t.Parallel()
	s := given(t)
	me := s.publishedOwner()
	s.secret("pg", map[string]string{"another-key": "x"})
	pg := me.datastore("pg", v1alpha1.DriverPostgres, "")
	me.grant("pg", "pg", "shop")
	class := s.class()
	limit := s.arrival(class)
	shop := s.workspace("shop", class, lists("pg", v1alpha1.DriverPostgres))
	pg.failing(v1alpha1.ReasonSecretKeyEmpty, endpointKey)
	shop.failing(v1alpha1.ReasonNotValidated, `"pg"`)

	// when
	pg.connect(s.login().uri())

	// then
	s.within(limit, "the Workspace is Ready once the key is there", func() error { return readyNow(shop.get()) })
	pg.ready()
	if err := datastoreSubject(pg.get()).lacks(v1alpha1.ConditionStalled); err != nil {
		t.Error(err)
	}
}

// Claim, datastore and Workspace can be deleted in any order; each takes with it what it brought, and nothing else.
func TestDeletionInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, order := range []string{
		"claim datastore workspace", "claim workspace datastore", "datastore claim workspace",
		"datastore workspace claim", "workspace claim datastore", "workspace datastore claim",
	} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			me := s.publishedOwner()
			pg := me.datastore("pg", v1alpha1.DriverPostgres, s.login().uri()).ready()
			me.datastore("stays", v1alpha1.DriverRedis, s.redisURI()).ready()
			claim := me.grant("pg", "pg", "shop")
			me.grant("stays", "stays", "shop")
			left := variables("stays", "DSN", "HOST", "PORT", "PASSWORD", "PERMISSION")
			shop := s.workspace("shop", s.class()).ready().injects(append(variables("pg", parts...), left...)...)
			there := map[string]bool{"claim": true, "datastore": true, "workspace": true}
			frozen := s.credentials("shop")

			for kind := range strings.FieldsSeq(order) {
				// when
				switch kind {
				case "claim":
					claim.delete()
				case "datastore":
					pg.delete()
				case "workspace":
					frozen = s.credentials("shop")
					shop.delete(metav1.DeletePropagationBackground)
				}
				there[kind] = false

				// then
				s.eventually(fmt.Sprintf("after the %s, of %s, what is left is right", kind, order), func() error {
					return s.left(there, shop, pg, claim, left)
				})
			}
			after := s.credentials("shop")
			if after.UID != frozen.UID || !equality.Semantic.DeepEqual(after.Data, frozen.Data) || after.Labels[v1alpha1.LabelRetained] != "true" {
				t.Errorf("the credentials are not as they were when the Workspace went")
			}
			if s.readSecret("pg") == nil {
				t.Error("the endpoint Secret, which is the user's, has gone")
			}
		})
	}
}

// left returns an error unless what is there is what should be, given which of the three objects are.
func (s *scenario) left(there map[string]bool, shop *tenant, pg *store, claim *grant, others []string) error {
	_, err := s.formspec.FormspecV1alpha1().ResourceClaims(s.namespace).Get(s.Context(), claim.name, metav1.GetOptions{})
	if gone := apierrors.IsNotFound(err); gone == there["claim"] {
		return fmt.Errorf("get the claim: %w", err)
	}
	_, err = s.formspec.FormspecV1alpha1().Datastores(s.namespace).Get(s.Context(), pg.name, metav1.GetOptions{})
	if gone := apierrors.IsNotFound(err); gone == there["datastore"] {
		return fmt.Errorf("get the datastore: %w", err)
	}
	if (pg.managed() != nil) != there["datastore"] {
		return fmt.Errorf("the managed Secret of the datastore: %v", pg.managed() != nil)
	}
	if there["claim"] {
		switch { // why it waits
		case !there["datastore"]:
			err = deniedNow(claim.get(), v1alpha1.ReasonDatastoreNotFound)
		case !there["workspace"]:
			err = deniedNow(claim.get(), v1alpha1.ReasonWorkspaceNotFound)
		}
		if err != nil {
			return err
		}
	}
	if !there["workspace"] {
		for _, k := range childKinds {
			if k.kind != "Secret" && shop.child(k) != nil {
				return fmt.Errorf("the %s is still there", k.kind)
			}
		}
		return nil
	}
	want := slices.Clone(others)
	if there["claim"] && there["datastore"] {
		want = append(want, variables("pg", parts...)...)
	}
	return firstError(shop.injectedNow(want...), readyNow(shop.get()), rolledOutNow(shop.deployment()))
}
