// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/datastore"
)

// start is when every test begins.
var start = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)

type option func(*datastore.Input)

// given is a Datastore whose endpoint Secret was read and works, and is about to be put in force.
func given(options ...option) datastore.Input {
	in := datastore.Input{
		Now: start, Since: start, Revision: "fresh",
		Datastore: &v1alpha1.Datastore{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "pg", UID: "uid-of-pg", Generation: 1},
			Spec:       v1alpha1.DatastoreSpec{Driver: v1alpha1.DriverPostgres, EndpointSecretRef: v1alpha1.SecretKeyReference{Name: "creds", Key: "dsn"}},
		},
		Source: &datastore.Source{UID: "uid-of-creds", ResourceVersion: "1"},
	}
	in.Offer = &datastore.Offer{
		Origin: in.Origin(), Check: &datastore.Check{OK: true, At: start, Finding: datastore.Finding{Reason: v1alpha1.ReasonValidated}},
		Data: map[string][]byte{"uri": []byte("postgres://u:p@h"), "host": []byte("h"), "read-only-uri": []byte("postgres://u:p@h?ro")},
	}
	for _, option := range options {
		option(&in)
	}
	return in
}

// written takes over what the plan writes, as the API server and the cache would, and what the shell remembers then.
func written(in *datastore.Input) {
	for _, write := range datastore.Make(*in).Apply {
		config := write.Config.(*corev1ac.SecretApplyConfiguration)
		ours := *config
		ours.Data = maps.Clone(config.Data)
		in.Managed = datastore.Secret{Ours: &ours, Live: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: *config.Name, Namespace: *config.Namespace, Labels: config.Labels, Annotations: maps.Clone(config.Annotations),
				OwnerReferences: []metav1.OwnerReference{{Kind: "Datastore", Name: in.Datastore.Name, UID: in.Datastore.UID, Controller: new(true)}},
			},
			Data: maps.Clone(config.Data),
		}}
		in.Check, in.Offer = in.Offer.Check, nil
	}
	in.Revision = "fresher"
}

func held(in *datastore.Input)   { in.Datastore.Finalizers = []string{v1alpha1.DatastoreRolesFinalizer} }
func logins(in *datastore.Input) { in.Logins = true }
func deleted(ago time.Duration) option {
	return func(in *datastore.Input) { in.Datastore.DeletionTimestamp = new(metav1.NewTime(start.Add(-ago))) }
}

func TestFinalizer(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    reconcile.Finalizer
		after   time.Duration
	}{
		"no claim has a login":           {nil, reconcile.FinalizerKeep, 0},
		"a claim has a login":            {[]option{logins}, reconcile.FinalizerAdd, 0},
		"it is there":                    {[]option{logins, held}, reconcile.FinalizerKeep, 0},
		"the last login is gone":         {[]option{held}, reconcile.FinalizerRemove, 0},
		"deleted, logins are dropped":    {[]option{logins, held, deleted(5 * time.Second)}, reconcile.FinalizerKeep, time.Minute},
		"deleted, logins were dropped":   {[]option{held, deleted(5 * time.Second)}, reconcile.FinalizerRemove, 0},
		"deleted, and it takes too long": {[]option{logins, held, deleted(65 * time.Second)}, reconcile.FinalizerRemove, 0},
		"deleted, nothing may be added":  {[]option{logins, deleted(0)}, reconcile.FinalizerKeep, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(append(row.options, func(in *datastore.Input) { in.Source = nil })...)
			if plan := datastore.Make(in); plan.Finalizer != row.want || plan.After != row.after {
				t.Errorf("finalizer %d after %s, want %d after %s", plan.Finalizer, plan.After, row.want, row.after)
			}
		})
	}
}

// doing tells what a plan does.
func doing(p datastore.Plan) string {
	s := ""
	for _, write := range p.Apply {
		s += "write " + write.Config.(*corev1ac.SecretApplyConfiguration).Annotations[v1alpha1.AnnotationRevision] + " "
	}
	return s + fmt.Sprintf("read %v probe %v recheck %v after %s", p.Read, p.Probe, p.Recheck, p.After)
}

const (
	silent = "read false probe false recheck false after 10m0s"
	reads  = "read true probe false recheck false after 0s"
)

// tampered is what somebody did to the managed Secret, with what is left as our fields.
func tampered(do func(live map[string][]byte, ours map[string][]byte)) option {
	return func(in *datastore.Input) { do(in.Managed.Live.Data, in.Managed.Ours.Data) }
}

func TestWhatIsInForce(t *testing.T) {
	for name, row := range map[string]struct {
		options []option
		want    string
	}{
		"about to be":             {nil, "write fresh read false probe false recheck false after 0s"},
		"in force":                {[]option{written}, silent},
		"a key changed":           {[]option{written, tampered(func(live, ours map[string][]byte) { live["uri"] = []byte("x"); delete(ours, "uri") })}, reads},
		"a key changed, not ours": {[]option{written, tampered(func(live, _ map[string][]byte) { live["uri"] = []byte("x") })}, reads},
		"a key gone":              {[]option{written, tampered(func(live, ours map[string][]byte) { delete(live, "host"); delete(ours, "host") })}, reads},
		"everything gone":         {[]option{written, tampered(func(live, ours map[string][]byte) { clear(live); clear(ours) })}, reads},
		"a part added":            {[]option{written, tampered(func(live, _ map[string][]byte) { live["port"] = []byte("1") })}, reads},
		"a read-only part added":  {[]option{written, tampered(func(live, _ map[string][]byte) { live["read-only-user"] = []byte("x") })}, reads},
		"something else added":    {[]option{written, tampered(func(live, _ map[string][]byte) { live["note"] = []byte("hello") })}, silent},
		"the list of parts gone":  {[]option{written, func(in *datastore.Input) { delete(in.Managed.Live.Annotations, v1alpha1.AnnotationParts) }}, reads},
		"our label gone": {
			[]option{written, func(in *datastore.Input) { delete(in.Managed.Ours.Labels, v1alpha1.LabelDatastore) }},
			"write fresh read false probe false recheck false after 10m0s",
		},
		"another Secret":        {[]option{written, func(in *datastore.Input) { in.Source = &datastore.Source{UID: "x", ResourceVersion: "1"} }}, reads},
		"the Secret changed":    {[]option{written, func(in *datastore.Input) { in.Source = &datastore.Source{UID: "uid-of-creds", ResourceVersion: "2"} }}, reads},
		"another key":           {[]option{written, func(in *datastore.Input) { in.Datastore.Spec.EndpointSecretRef.Key = "x" }}, reads},
		"another driver":        {[]option{written, func(in *datastore.Input) { in.Datastore.Spec.Driver = v1alpha1.DriverRedis }}, reads},
		"somebody else's":       {[]option{written, func(in *datastore.Input) { in.Managed.Live.OwnerReferences = nil }}, "read false probe false recheck false after 30s"},
		"another of the name's": {[]option{written, func(in *datastore.Input) { in.Datastore.UID = "another" }}, "read false probe false recheck false after 30s"},
		"the endpoint is gone":  {[]option{written, func(in *datastore.Input) { in.Source = nil }}, "read false probe false recheck false after 0s"},
		"being deleted":         {[]option{written, deleted(0)}, "read false probe false recheck false after 0s"},
		"it is time to look":    {[]option{written, func(in *datastore.Input) { in.Now = start.Add(10 * time.Minute) }}, "read false probe false recheck true after 0s"},
		"a restart, not validated": {
			[]option{written, func(in *datastore.Input) { in.Check = nil }}, "read false probe false recheck true after 0s",
		},
		"a restart": {[]option{written, planned, func(in *datastore.Input) { in.Check, in.Now = nil, start.Add(time.Minute) }}, "read false probe false recheck false after 9m0s"},
		"a while after a restart": {
			[]option{written, planned, func(in *datastore.Input) { in.Check, in.Now = nil, start.Add(10*time.Minute) }}, "read false probe false recheck true after 0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := doing(datastore.Make(given(row.options...))); got != row.want {
				t.Errorf("it does\n%s, want\n%s", got, row.want)
			}
		})
	}
}

func TestForWhomKeysWereListed(t *testing.T) {
	for name, row := range map[string]struct {
		before string
		finds  *string
		want   string
	}{
		"an entry for the owner":                  {"", new("owner"), "owner"},
		"no entry":                                {"", new(""), ""},
		"no entry any more":                       {"owner", new(""), ""},
		"an entry for whoever is the owner now":   {"earlier", new("owner"), "owner"},
		"it cannot be read":                       {"owner", nil, "owner"},
		"it cannot be read, and never was":        {"", nil, ""},
		"it cannot be read, and the owner is new": {"earlier", nil, "earlier"},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(func(in *datastore.Input) {
				in.Datastore.Spec.Owner, in.Datastore.Status.ListedOwner, in.ListedOwner = "owner", row.before, row.finds
			})
			if got := datastore.Status(in).ListedOwner; got != row.want {
				t.Errorf("the listed owner is %q, want %q", got, row.want)
			}
		})
	}
}

func TestMoreConnectionsThanCanBeCounted(t *testing.T) {
	const most = math.MaxInt32
	claim := &v1alpha1.ResourceClaim{Spec: v1alpha1.ResourceClaimSpec{MaxConnections: new(int32(most))}}
	in := given(func(in *datastore.Input) {
		in.Claims, in.Datastore.Spec.Capacity.MaxConnections = []*v1alpha1.ResourceClaim{claim, claim}, most
	})
	status := datastore.Make(in).Status
	over := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionOvercommitted)
	if status.ClaimedConnections != most || over == nil || !strings.Contains(over.Message, "4294967294") {
		t.Errorf("%d connections, Overcommitted is %+v", status.ClaimedConnections, over)
	}
}

// planned takes the status over from the plan, as the API server would.
func planned(in *datastore.Input) { in.Datastore.Status = datastore.Make(*in).Status }

func TestTheSameCredentialsKeepTheirRevision(t *testing.T) {
	in := given(written)
	in.Source.ResourceVersion = "2"
	offer := given().Offer
	offer.Origin = in.Origin()
	in.Offer = offer
	if got := doing(datastore.Make(in)); got != "write fresh read false probe false recheck false after 0s" {
		t.Errorf("it does %s", got)
	}
	in.Managed.Live.Data["note"] = []byte("hello") // somebody's own key
	if got := doing(datastore.Make(in)); got != "write fresh read false probe false recheck false after 0s" {
		t.Errorf("beside somebody's own key it does %s", got)
	}
	in.Managed.Live.Data["host"] = []byte("forged") // by one that shares the field with us
	if got := doing(datastore.Make(in)); got != "write fresher read false probe false recheck false after 0s" {
		t.Errorf("over a forged key it does %s", got)
	}
	in.Managed.Live.Data["host"] = []byte("h")
	offer.Data = map[string][]byte{"uri": []byte("postgres://u:p2@h")}
	if got := doing(datastore.Make(in)); got != "write fresher read false probe false recheck false after 0s" {
		t.Errorf("it does %s", got)
	}
}
