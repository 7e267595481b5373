// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaim_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

const theLogin = "claim_bank-pg-claim_x"

// perClaim is an approved claim for a datastore with roles PerClaim, whose credentials work, signed at the end.
func perClaim(options ...option) resourceclaim.Input {
	return given(append([]option{func(in *resourceclaim.Input) {
		in.Claim.UID, in.Datastore.UID, in.Datastore.Spec.Roles = "uid-of-claim", "uid-of-datastore", v1alpha1.RolesPerClaim
		in.Role = resourceclaim.Role{Name: theLogin, Datastore: in.Datastore, Admin: "admin-1", Revision: "fresh"}
	}}, options...)...)
}

func held(in *resourceclaim.Input) { in.Claim.Finalizers = []string{v1alpha1.RoleFinalizer} }

func refuse(in *resourceclaim.Input) { in.Datastore.Spec.AllowedTenants = nil }

func rotate(value string) option {
	return claim(func(c *v1alpha1.ResourceClaim) {
		c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: value}
	})
}

func admin(revision string) option {
	return func(in *resourceclaim.Input) { in.Role.Admin = revision }
}

func deleted(ago time.Duration) option {
	return claim(func(c *v1alpha1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: start.Add(-ago)} })
}

func noDatastore(in *resourceclaim.Input) {
	in.Datastore, in.Role.Datastore, in.Role.Admin = nil, nil, ""
}

func datastoreDeleted(in *resourceclaim.Input) {
	in.Datastore.DeletionTimestamp = &metav1.Time{Time: start}
}

func credentials(password string) map[string][]byte {
	return map[string][]byte{"uri": []byte("postgres://u:" + password + "@h/d"), "host": []byte("h"), "user": []byte("u"), "password": []byte(password)}
}

// tried adds what became of the plan's own attempt.
func tried(reason string, failures int, ago time.Duration) option {
	return func(in *resourceclaim.Input) {
		sign(in)
		plan, last := resourceclaim.Make(*in), &resourceclaim.Attempt{Reason: reason, Message: "because of " + reason, At: start.Add(-ago), Failures: failures}
		switch {
		case plan.Ensure != nil:
			last.For = plan.Ensure.String()
			if reason == "" {
				last.Data = credentials("secret")
			}
		case plan.Drop != nil:
			last.Drop, last.For = true, plan.Drop.String()
		default:
			panic("nothing is to be tried")
		}
		in.Role.Last = last
	}
}

// written takes over what the plan writes, as the API server and the cache would.
func written(in *resourceclaim.Input) {
	sign(in)
	for _, write := range resourceclaim.Make(*in).Apply {
		config := write.Config.(*corev1ac.SecretApplyConfiguration)
		in.Role.Secret = resourceclaim.Secret{Ours: config, Live: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: *config.Name, Namespace: *config.Namespace, Labels: config.Labels, Annotations: config.Annotations, UID: "uid-of-secret",
				OwnerReferences: []metav1.OwnerReference{{Kind: "ResourceClaim", Name: in.Claim.Name, UID: in.Claim.UID, Controller: new(true)}},
			},
			Data: maps.Clone(config.Data),
		}}
		in.Role.Last = nil
	}
}

// inForce is a claim whose login was made and put in force.
var inForce = both(held, tried("", 0, 0), written)

func resigned(in *resourceclaim.Input) { in.Claim.Spec.Signature = "" }

// roleRow is what is expected of a plan.
type roleRow struct {
	options   []option
	finalizer reconcile.Finalizer
	ensure    bool
	fresh     bool
	drop      string
	writes    string // of the Secret: "", "login revision" or "blank"
	event     string
	status    metav1.ConditionStatus // of RoleReady. Empty: it is absent
	reason    string
	after     time.Duration
}

const (
	isTrue    = metav1.ConditionTrue
	isFalse   = metav1.ConditionFalse
	isUnknown = metav1.ConditionUnknown

	place = "pg-bank-mandiri/bank-mandiri-prod"
)

func TestRole(t *testing.T) {
	unreachable := v1alpha1.ReasonUnreachable
	for name, row := range map[string]roleRow{
		"roles are shared":              {options: []option{datastore(func(s *v1alpha1.DatastoreSpec) { s.Roles = "" })}},
		"the driver knows no roles":     {options: []option{datastore(func(s *v1alpha1.DatastoreSpec) { s.Driver = v1alpha1.DriverRedis })}},
		"the claim is denied":           {options: []option{refuse}},
		"a denied claim is deleted":     {options: []option{refuse, deleted(0)}},
		"the claim is approved":         {nil, reconcile.FinalizerAdd, true, true, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"the finalizer is there":        {[]option{held}, 0, true, true, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"the datastore never worked":    {[]option{held, admin("")}, 0, false, false, "", "", "", isUnknown, v1alpha1.ReasonNotValidated, 0},
		"it could not be made":          {[]option{held, tried(unreachable, 1, 2*time.Second)}, 0, false, false, "", "", "", isFalse, unreachable, 3 * time.Second},
		"it could not for a long time":  {[]option{held, tried(unreachable, 30, time.Minute)}, 0, false, false, "", "", "", isFalse, unreachable, 4 * time.Minute},
		"it is time to try again":       {[]option{held, tried(unreachable, 1, 5*time.Second)}, 0, true, true, "", "", "", isFalse, unreachable, 0},
		"another endpoint since":        {[]option{held, tried(unreachable, 1, 0), admin("admin-2")}, 0, true, true, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"the login was made":            {[]option{held, tried("", 0, 0)}, 0, false, false, "", "login fresh", "", isTrue, v1alpha1.ReasonRoleInForce, 0},
		"the login is in force":         {[]option{inForce}, 0, false, false, "", "", "", isTrue, v1alpha1.ReasonRoleInForce, 0},
		"somebody took the label off":   {[]option{inForce, stolenLabel}, 0, false, false, "", "login fresh", "", isTrue, v1alpha1.ReasonRoleInForce, 0},
		"somebody changed the password": {[]option{inForce, forged}, 0, true, true, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"somebody deleted a key":        {[]option{inForce, robbed}, 0, true, true, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"somebody added a key":          {[]option{inForce, added}, 0, false, false, "", "", "", isTrue, v1alpha1.ReasonRoleInForce, 0},
		"somebody else has the name":    {[]option{inForce, foreign}, 0, false, false, "", "", "", isFalse, v1alpha1.ReasonNameConflict, 30 * time.Second},
		"a new rotation":                {[]option{inForce, rotate("1")}, 0, true, true, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"a new endpoint":                {[]option{inForce, admin("admin-2")}, 0, true, false, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"the endpoint goes for a while": {[]option{inForce, admin("")}, 0, false, false, "", "", "", isUnknown, v1alpha1.ReasonNotValidated, 0},
		"another permission":            {[]option{inForce, spec(func(s *v1alpha1.ResourceClaimSpec) { s.Permission = v1alpha1.PermissionReadOnly }), resigned}, 0, true, false, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"another limit":                 {[]option{inForce, spec(func(s *v1alpha1.ResourceClaimSpec) { s.MaxConnections = new(int32(5)) })}, 0, true, false, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"the same login made again":     {[]option{inForce, admin("admin-2"), revision("other"), tried("", 0, 0)}, 0, false, false, "", "login fresh", "", isTrue, v1alpha1.ReasonRoleInForce, 0},
		"a rotation that failed":        {[]option{inForce, rotate("1"), tried(unreachable, 1, 0)}, 0, false, false, "", "", "", isFalse, unreachable, 5 * time.Second},

		"no longer approved":          {[]option{inForce, refuse}, 0, false, false, place, "", "", isFalse, v1alpha1.ReasonRolePending, 0},
		"no longer PerClaim":          {[]option{inForce, datastore(func(s *v1alpha1.DatastoreSpec) { s.Roles = v1alpha1.RolesShared })}, 0, false, false, place, "", "", isFalse, v1alpha1.ReasonRolePending, 0},
		"the datastore is deleted":    {[]option{inForce, datastoreDeleted}, 0, false, false, place, "", "", isFalse, v1alpha1.ReasonRolePending, 0},
		"the datastore is gone":       {[]option{inForce, noDatastore}, 0, false, false, "", "", "", isFalse, v1alpha1.ReasonNotValidated, 0},
		"dropped":                     {[]option{inForce, refuse, tried("", 0, 0)}, reconcile.FinalizerRemove, false, false, "", "blank", "", "", "", 0},
		"dropped and blank":           {[]option{inForce, refuse, tried("", 0, 0), blank}, reconcile.FinalizerRemove, false, false, "", "", "", "", "", 0},
		"it could not be dropped":     {[]option{inForce, refuse, tried(unreachable, 2, 0)}, 0, false, false, "", "", "", isFalse, unreachable, 10 * time.Second},
		"it is to be dropped again":   {[]option{inForce, refuse, tried(unreachable, 2, 10*time.Second)}, 0, false, false, place, "", "", isFalse, unreachable, 0},
		"the claim is being deleted":  {[]option{inForce, deleted(10 * time.Second)}, 0, false, false, place, "", "", isFalse, v1alpha1.ReasonRolePending, 50 * time.Second},
		"deleted, dropped":            {[]option{inForce, deleted(0), tried("", 0, 0)}, reconcile.FinalizerRemove, false, false, "", "blank", "", "", "", time.Minute},
		"deleted, the server is dead": {[]option{inForce, deleted(58 * time.Second), tried(unreachable, 4, 0)}, 0, false, false, "", "", "", isFalse, unreachable, 2 * time.Second},
		"deleted, waits for nobody":   {[]option{inForce, deleted(60 * time.Second)}, reconcile.FinalizerRemove, false, false, "", "blank", v1alpha1.ReasonRoleLeftBehind, "", "", 0},
		"deleted, no credentials now": {[]option{inForce, deleted(0), admin("")}, 0, false, false, "", "", "", isFalse, v1alpha1.ReasonNotValidated, time.Minute},
		"deleted with the datastore":  {[]option{inForce, deleted(0), noDatastore}, reconcile.FinalizerRemove, false, false, "", "blank", v1alpha1.ReasonRoleLeftBehind, "", "", time.Minute},

		"for another workspace":            {[]option{inForce, moved}, 0, false, false, place, "", "", isFalse, v1alpha1.ReasonRolePending, 0},
		"for another workspace, dropped":   {[]option{inForce, moved, tried("", 0, 0)}, 0, false, false, "", "blank", "", isFalse, v1alpha1.ReasonRolePending, time.Millisecond},
		"for another workspace, anew":      {[]option{inForce, moved, tried("", 0, 0), blank}, 0, true, true, "", "", "", isUnknown, v1alpha1.ReasonRolePending, 0},
		"for another, and the old is gone": {[]option{inForce, moved, func(in *resourceclaim.Input) { in.Role.Datastore, in.Role.Admin = nil, "" }}, 0, false, false, "", "blank", v1alpha1.ReasonRoleLeftBehind, isFalse, v1alpha1.ReasonRolePending, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) { row.check(t, perClaim(row.options...)) })
	}
}

func (row roleRow) check(t *testing.T, in resourceclaim.Input) {
	t.Helper()
	plan := resourceclaim.Make(in)
	drop, writes, event := "", "", ""
	if plan.Drop != nil {
		drop = plan.Drop.String()
	}
	for _, write := range plan.Apply {
		config := write.Config.(*corev1ac.SecretApplyConfiguration)
		if writes = "blank"; len(config.Data) > 0 {
			writes = "login " + config.Annotations[v1alpha1.AnnotationRevision]
		}
	}
	for _, e := range plan.Events {
		if event = e.Reason; !strings.Contains(e.Note, theLogin) || e.Type != corev1.EventTypeWarning {
			t.Errorf("the event %s says %q", e.Type, e.Note)
		}
	}
	role := find(plan.Status, v1alpha1.ConditionRoleReady)
	got := roleRow{
		finalizer: plan.Finalizer, ensure: plan.Ensure != nil, fresh: plan.Fresh, drop: drop, writes: writes, event: event,
		status: role.Status, reason: role.Reason, after: plan.After,
	}
	want := row
	want.options = nil
	if got.String() != want.String() {
		t.Errorf("got\n%s (%s), want\n%s", got, role.Message, want)
	}
	if strings.Contains(role.Message, "secret") || role.Message != "" && !slices.Contains([]string{v1alpha1.ReasonNameConflict, v1alpha1.ReasonNotValidated}, role.Reason) && !strings.Contains(role.Message, theLogin) {
		t.Errorf("the message is %q", role.Message)
	}
}

func (row roleRow) String() string {
	return fmt.Sprintf("finalizer %d, ensure %v, fresh %v, drop %q, writes %q, event %q, RoleReady %q %q, after %s",
		row.finalizer, row.ensure, row.fresh, row.drop, row.writes, row.event, row.status, row.reason, row.after)
}

func stolenLabel(in *resourceclaim.Input) {
	ours, metadata := *in.Role.Secret.Ours, *in.Role.Secret.Ours.ObjectMetaApplyConfiguration
	metadata.Labels = nil
	ours.ObjectMetaApplyConfiguration = &metadata
	in.Role.Secret.Ours = &ours
}

// forged is an edit of somebody, whose field it is from then on.
func forged(in *resourceclaim.Input) {
	ours := *in.Role.Secret.Ours
	ours.Data = maps.Clone(ours.Data)
	delete(ours.Data, "password")
	in.Role.Secret.Ours, in.Role.Secret.Live.Data["password"] = &ours, []byte("forged")
}

// robbed is a key that somebody deleted, which is nobody's field from then on.
func robbed(in *resourceclaim.Input) {
	ours := *in.Role.Secret.Ours
	ours.Data = maps.Clone(ours.Data)
	delete(ours.Data, "host")
	delete(in.Role.Secret.Live.Data, "host")
	in.Role.Secret.Ours = &ours
}

func added(in *resourceclaim.Input) { in.Role.Secret.Live.Data["note"] = []byte("hello") }

func foreign(in *resourceclaim.Input) { in.Role.Secret.Live.OwnerReferences = nil }

func revision(word string) option {
	return func(in *resourceclaim.Input) { in.Role.Revision = word }
}

// blank is what is left of the Secret of a login that was dropped.
func blank(in *resourceclaim.Input) {
	last := in.Role.Last
	written(in)
	in.Role.Last = last
}

// moved is a claim that was signed anew for another workspace.
func moved(in *resourceclaim.Input) {
	in.Claim.Spec.Workspace, in.Claim.Spec.Signature = "bank-mandiri-test", ""
	in.Datastore.Spec.AllowedTenants = []string{"*"}
}
