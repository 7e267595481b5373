// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// binding is an approved claim for a datastore with credentials that work, and the changes.
func binding(datastore string, changes ...func(*workspace.Binding)) workspace.Binding {
	b := workspace.Binding{
		Claim: &v1alpha1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: datastore + "-claim", CreationTimestamp: metav1.NewTime(start)},
			Spec:       v1alpha1.ResourceClaimSpec{Datastore: datastore, Workspace: "shop", Permission: v1alpha1.PermissionReadWrite},
		},
		Approved: true,
		Credentials: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRevision: "r1"}},
			Data: map[string][]byte{
				"uri": []byte("postgres://app:pw@db/shop"), "host": []byte("db"), "user": []byte("app"), "password": []byte("pw"), "database": []byte("shop"),
				"read-only-uri": []byte("postgres://app:pw@db/shop?options=ro"),
			},
		},
	}
	for _, change := range changes {
		change(&b)
	}
	return b
}

func readOnly(b *workspace.Binding)      { b.Claim.Spec.Permission = v1alpha1.PermissionReadOnly }
func noCredentials(b *workspace.Binding) { b.Credentials = nil }
func later(b *workspace.Binding)         { b.Claim.CreationTimestamp = metav1.NewTime(start.Add(time.Hour)) }

func rotated(b *workspace.Binding) { b.Credentials.Annotations[v1alpha1.AnnotationRevision] = "r2" }

func denied(reason string) func(*workspace.Binding) {
	return func(b *workspace.Binding) { b.Approved, b.Reason, b.Message = false, reason, "because" }
}

func bound(bindings ...workspace.Binding) option {
	return func(in *workspace.Input) { in.Bindings = bindings }
}

// lists a datastore; without a driver there is none of the name.
func lists(name, listedType string, driver v1alpha1.Driver) option {
	return func(in *workspace.Input) {
		listed := workspace.Listed{DatastoreReference: v1alpha1.DatastoreReference{Name: name, Type: listedType}}
		if driver != "" {
			listed.Datastore = &v1alpha1.Datastore{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.DatastoreSpec{Driver: driver, Owner: "cloud"}}
		}
		in.Listed = append(in.Listed, listed)
	}
}

func written[C any](t *testing.T, in workspace.Input) C {
	t.Helper()
	for _, write := range workspace.Make(in).Apply {
		if config, ok := write.Config.(C); ok {
			return config
		}
	}
	t.Fatalf("nothing of type %T is written", *new(C))
	return *new(C)
}

func TestCredentialsOfApprovedClaimsAreInjectedByReference(t *testing.T) {
	in := given(bound(binding("pg-bank.mandiri"), binding("cache", denied(v1alpha1.ReasonExpired)), binding("files", noCredentials)))
	secret := written[*corev1ac.SecretApplyConfiguration](t, in)
	prefix := "FORMSPEC_DATASTORE_PG_BANK_MANDIRI_"
	want := map[string]string{
		prefix + "DSN": "postgres://app:pw@db/shop", prefix + "HOST": "db", prefix + "USER": "app", prefix + "PASSWORD": "pw",
		prefix + "DATABASE": "shop", prefix + "PERMISSION": "read-write",
	}
	got := map[string]string{}
	for key, value := range secret.Data {
		got[key] = string(value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("the Secret holds %v, want %v", got, want)
	}
	var names []string
	for _, env := range written[*appsv1ac.DeploymentApplyConfiguration](t, in).Spec.Template.Spec.Containers[0].Env {
		names = append(names, *env.Name)
		if !strings.Contains(*env.Name, "_DATASTORE_") {
			continue
		}
		ref := env.ValueFrom.SecretKeyRef
		if env.Value != nil || *ref.Name != *secret.Name || secret.Data[*ref.Key] == nil {
			t.Errorf("%s refers to %s of %s, which is not there", *env.Name, *ref.Key, *ref.Name)
		}
	}
	if !slices.IsSorted(names) || !slices.Contains(names, "FORMA_DATASTORE_PG_BANK_MANDIRI_DSN") || len(names) != 3+len(want)+1 {
		t.Errorf("the variables are %q", names)
	}
}

func TestTheLongestNameGivesKeysOfASecret(t *testing.T) {
	keyOf := func(length int) string {
		longest := ""
		for key := range written[*corev1ac.SecretApplyConfiguration](t, given(bound(binding(strings.Repeat("a", length))))).Data {
			if len(key) > len(longest) {
				longest = key
			}
		}
		return longest
	}
	if problems := validation.IsConfigMapKey(keyOf(names.LongestDatastore)); len(problems) > 0 {
		t.Errorf("a datastore that may be granted has the key %q", problems)
	}
	if problems := validation.IsConfigMapKey(keyOf(names.LongestDatastore + 1)); len(problems) == 0 {
		t.Error("a longer name would do as well")
	}
}

func TestAReadOnlyClaimGetsTheReadOnlyParts(t *testing.T) {
	secret := written[*corev1ac.SecretApplyConfiguration](t, given(bound(binding("pg", readOnly))))
	if got := string(secret.Data["FORMSPEC_DATASTORE_PG_DSN"]); got != "postgres://app:pw@db/shop?options=ro" {
		t.Errorf("the DSN is %q, want the read-only one", got)
	}
	if got := string(secret.Data["FORMSPEC_DATASTORE_PG_PERMISSION"]); got != "read-only" {
		t.Errorf("the permission is %q", got)
	}
}

// No part of one user's credentials is mixed with those of another.
func TestAReadOnlyClaimGetsNothingOfTheOtherUser(t *testing.T) {
	reader := func(b *workspace.Binding) {
		b.Credentials.Data = map[string][]byte{
			"uri": []byte("redis://admin:SECRET@h:6379/3"), "host": []byte("h"), "port": []byte("6379"), "user": []byte("admin"),
			"password": []byte("SECRET"), "database": []byte("3"),
			"read-only-uri": []byte("redis://reader@replica"), "read-only-host": []byte("replica"), "read-only-user": []byte("reader"),
		}
	}
	for name, row := range map[string]struct {
		change func(*workspace.Binding)
		want   map[string]string
	}{
		"read-only": {readOnly, map[string]string{"DSN": "redis://reader@replica", "HOST": "replica", "USER": "reader", "PERMISSION": "read-only"}},
		"read-write": {func(*workspace.Binding) {}, map[string]string{
			"DSN": "redis://admin:SECRET@h:6379/3", "HOST": "h", "PORT": "6379", "USER": "admin", "PASSWORD": "SECRET", "DATABASE": "3",
			"PERMISSION": "read-write",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for key, value := range written[*corev1ac.SecretApplyConfiguration](t, given(bound(binding("pg", reader, row.change)))).Data {
				got[strings.TrimPrefix(key, "FORMSPEC_DATASTORE_PG_")] = string(value)
			}
			if !maps.Equal(got, row.want) {
				t.Errorf("it gets %v, want %v", got, row.want)
			}
		})
	}
}

func TestTheFirstNameOfDatastoresWithTheSameVariablesIsInjected(t *testing.T) {
	host := func(of string) func(*workspace.Binding) {
		return func(b *workspace.Binding) { b.Credentials.Data["host"] = []byte(of) }
	}
	dash, dot := binding("a-b", host("dash")), binding("a.b", host("dot"))
	for name, row := range map[string]struct {
		bindings []workspace.Binding
		want     string // empty: nothing is injected
		collides bool
	}{
		"both are granted":               {[]workspace.Binding{dash, dot}, "dash", true},
		"in another order":               {[]workspace.Binding{dot, dash}, "dash", true},
		"the first was granted later":    {[]workspace.Binding{binding("a-b", host("dash"), later), dot}, "dash", true},
		"the second was granted later":   {[]workspace.Binding{dash, binding("a.b", host("dot"), later)}, "dash", true},
		"the first has no credentials":   {[]workspace.Binding{binding("a-b", noCredentials), dot}, "", true},
		"the second has no credentials":  {[]workspace.Binding{dash, binding("a.b", noCredentials)}, "dash", true},
		"the first is refused":           {[]workspace.Binding{binding("a-b", denied(v1alpha1.ReasonSignatureMismatch)), dot}, "dot", false},
		"the second is refused":          {[]workspace.Binding{dash, binding("a.b", denied(v1alpha1.ReasonExpired))}, "dash", false},
		"there is only the second":       {[]workspace.Binding{dot}, "dot", false},
		"one has two claims":             {[]workspace.Binding{dash, binding("a-b", host("old"), supersededAt("2026-07-10T02:00:00Z", "old"))}, "dash", false},
		"there is none, but another one": {[]workspace.Binding{binding("ab")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(bound(row.bindings...))
			if got := string(written[*corev1ac.SecretApplyConfiguration](t, in).Data["FORMSPEC_DATASTORE_A_B_HOST"]); got != row.want {
				t.Errorf("the host is %q, want that of %q", got, row.want)
			}
			status := workspace.Make(then(in, settled, ready(1))).Status
			got := conditionOf(status, v1alpha1.ConditionNameCollision)
			if (got.Status == isTrue) != row.collides || (got.Type != "") != row.collides {
				t.Fatalf("NameCollision is %s, want it to be there: %v", asJSON(got), row.collides)
			}
			if part := `datastores "a-b", "a.b" have the same variables FORMSPEC_DATASTORE_A_B_…: they are those of "a-b"`; row.collides && !strings.Contains(got.Message, part) {
				t.Errorf("NameCollision says %q, want %q", got.Message, part)
			}
			if is := readyCondition(status); is.Status != isTrue {
				t.Errorf("Ready is %s: what is not listed gates nothing", asJSON(is))
			}
		})
	}
}

func TestAListedDatastoreWhoseVariablesAreAnothersIsNotBound(t *testing.T) {
	for listed, want := range map[string]string{"a-b": v1alpha1.ReasonBound, "a.b": v1alpha1.ReasonNameCollision} {
		in := given(bound(binding("a-b"), binding("a.b")), lists(listed, "", v1alpha1.DriverPostgres))
		got := conditionOf(workspace.Make(in).Status, v1alpha1.ConditionDatastoresBound)
		if got.Reason != want || (want != v1alpha1.ReasonBound) != strings.Contains(got.Message, `they are those of "a-b"`) {
			t.Errorf("DatastoresBound of a workspace that lists %q is %s, want %s", listed, asJSON(got), want)
		}
	}
}

func TestTheRevisionRollsPodsWhenCredentialsChangeAndOnlyThen(t *testing.T) {
	revision := func(bindings ...workspace.Binding) string {
		return written[*appsv1ac.DeploymentApplyConfiguration](t, given(bound(bindings...))).Spec.Template.Annotations[v1alpha1.AnnotationCredentials]
	}
	one := revision(binding("pg"))
	for name, change := range map[string]func(*workspace.Binding){
		"the claim's metadata":  func(b *workspace.Binding) { b.Claim.Labels = map[string]string{"a": "b"} },
		"the claim's signature": func(b *workspace.Binding) { b.Claim.Spec.GrantedAt, b.Claim.Spec.Signature = "later", "another" },
		"another claim":         func(b *workspace.Binding) { b.Claim.Name = "another" },
		"the Secret's metadata": func(b *workspace.Binding) { b.Credentials.Annotations["a"] = "b" },
		"what no variable says": func(b *workspace.Binding) { b.Credentials.Data["ca.crt"] = []byte("PEM") },
	} {
		if one == "" || one != revision(binding("pg", change)) {
			t.Errorf("%s rolls pods", name)
		}
	}
	for name, others := range map[string][]workspace.Binding{
		"another password":     {binding("pg", rotated)},
		"another permission":   {binding("pg", readOnly)},
		"a second datastore":   {binding("pg"), binding("cache")},
		"a datastore instead":  {binding("cache")},
		"nothing but a denial": {binding("pg", denied(v1alpha1.ReasonExpired))},
	} {
		if one == revision(others...) {
			t.Errorf("%s rolls no pods", name)
		}
	}
	if got := revision(binding("pg", noCredentials)); got != "" {
		t.Errorf("the revision is %q without credentials", got)
	}
}

// awaited is a binding whose credentials may come at any moment.
func awaited(b *workspace.Binding) { b.Credentials, b.Awaited = nil, true }

func created(ago time.Duration) option {
	return func(in *workspace.Input) { in.Workspace.CreationTimestamp = metav1.NewTime(in.Now.Add(-ago)) }
}

func TestWhatIsCreatedTogetherIsOneDeployment(t *testing.T) {
	pending := bound(binding("pg", awaited))
	for name, row := range map[string]struct {
		options []option
		left    time.Duration
	}{
		"credentials are on their way":           {[]option{created(500 * time.Millisecond), pending}, 1500 * time.Millisecond},
		"they do not come":                       {[]option{created(2 * time.Second), pending}, 0},
		"the clocks differ":                      {[]option{created(-time.Second), pending}, 0},
		"nothing is known against another claim": {[]option{created(0), bound(binding("a"), binding("pg", awaited))}, 2 * time.Second},
		"they have come":                         {[]option{created(0), bound(binding("pg"))}, 0},
		"they cannot come":                       {[]option{created(0), bound(binding("pg", noCredentials))}, 0},
		"the claim is denied":                    {[]option{created(0), bound(binding("pg", awaited, denied(v1alpha1.ReasonExpired)))}, 0},
		"there is no claim":                      {[]option{created(0), lists("pg", "", v1alpha1.DriverPostgres)}, 0},
		"it was looked at before":                {[]option{object(func(ws *v1alpha1.Workspace) { ws.Status.ObservedGeneration = 1 }), created(0), pending}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(row.options...)
			plan := workspace.Make(in)
			silent := len(plan.Apply) == 0 && plan.Finalizer == 0 && equality.Semantic.DeepEqual(plan.Status, in.Workspace.Status)
			if silent != (row.left > 0) || plan.After != row.left {
				t.Errorf("it writes %d children and looks again after %s, want %s", len(plan.Apply), plan.After, row.left)
			}
		})
	}
}

func supersededAt(grantedAt, user string) func(*workspace.Binding) {
	return func(b *workspace.Binding) {
		denied(v1alpha1.ReasonSuperseded)(b)
		b.Claim.Name, b.Claim.Spec.GrantedAt, b.Credentials.Data["user"] = user, grantedAt, []byte(user)
	}
}

func TestAClaimIsInForceUntilTheNextHasALogin(t *testing.T) {
	next := binding("pg", func(b *workspace.Binding) {
		b.Claim.Name, b.Claim.Spec.GrantedAt, b.Credentials.Data["user"] = "next", "2026-07-10T12:00:00Z", []byte("next")
	})
	waiting := binding("pg", noCredentials, func(b *workspace.Binding) { b.Claim.Name, b.Claim.Spec.GrantedAt = "next", "2026-07-10T12:00:00Z" })
	old := binding("pg", supersededAt("2026-07-10T10:00:00+07:00", "old"))
	older := binding("pg", supersededAt("2026-07-10T02:00:00Z", "older"))
	for name, row := range map[string]struct {
		bindings []workspace.Binding
		want     string // empty: nothing is injected
	}{
		"the next has no login yet":             {[]workspace.Binding{waiting, old}, "old"},
		"of two that are superseded the latter": {[]workspace.Binding{old, older, waiting}, "old"},
		"whatever their order":                  {[]workspace.Binding{waiting, older, old}, "old"},
		"the next has a login":                  {[]workspace.Binding{next, old, older}, "next"},
		"the old one has none":                  {[]workspace.Binding{waiting, binding("pg", supersededAt("2026-07-10T02:00:00Z", "old"), noCredentials)}, ""},
		"another refusal":                       {[]workspace.Binding{waiting, binding("pg", denied(v1alpha1.ReasonExpired))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(bound(row.bindings...), lists("pg", "", v1alpha1.DriverPostgres))
			got := string(written[*corev1ac.SecretApplyConfiguration](t, in).Data["FORMSPEC_DATASTORE_PG_USER"])
			is := conditionOf(workspace.Make(in).Status, v1alpha1.ConditionDatastoresBound).Status == isTrue
			if got != row.want || is != (row.want != "") {
				t.Errorf("the user is %q and bound %v, want %q", got, is, row.want)
			}
		})
	}
}

func TestTheSecretBearsTheRevisionOfThePods(t *testing.T) {
	in := given(bound(binding("pg")))
	secret := written[*corev1ac.SecretApplyConfiguration](t, in).Annotations[v1alpha1.AnnotationCredentials]
	pods := written[*appsv1ac.DeploymentApplyConfiguration](t, in).Spec.Template.Annotations[v1alpha1.AnnotationCredentials]
	if secret == "" || secret != pods {
		t.Errorf("the Secret has revision %q and the pods have %q", secret, pods)
	}
}

func TestDatastoresBound(t *testing.T) {
	pg := lists("pg", "postgres", v1alpha1.DriverPostgres)
	for name, row := range map[string]struct {
		options []option
		status  metav1.ConditionStatus
		reason  string
		ready   bool
		stalled bool
	}{
		"nothing is listed":                       {nil, isTrue, v1alpha1.ReasonNoneListed, true, false},
		"listed, granted and working":             {[]option{pg, bound(binding("pg"))}, isTrue, v1alpha1.ReasonBound, true, false},
		"not registered":                          {[]option{lists("pg", "postgres", "")}, isFalse, v1alpha1.ReasonDatastoreNotFound, false, false},
		"registered with another driver":          {[]option{lists("pg", "valkey", v1alpha1.DriverPostgres)}, isFalse, v1alpha1.ReasonTypeMismatch, false, true},
		"nobody granted it":                       {[]option{pg}, isFalse, v1alpha1.ReasonClaimMissing, false, false},
		"the claim is denied":                     {[]option{pg, bound(binding("pg", denied(v1alpha1.ReasonExpired)))}, isFalse, v1alpha1.ReasonExpired, false, false},
		"the endpoint never worked":               {[]option{pg, bound(binding("pg", noCredentials))}, isFalse, v1alpha1.ReasonNotValidated, false, false},
		"granted and not listed gates nothing":    {[]option{bound(binding("pg", denied(v1alpha1.ReasonExpired)))}, isTrue, v1alpha1.ReasonNoneListed, true, false},
		"a type that is left out fits any driver": {[]option{lists("pg", "", v1alpha1.DriverPostgres), bound(binding("pg"))}, isTrue, v1alpha1.ReasonBound, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			status := workspace.Make(given(append(row.options, settled, ready(1))...)).Status
			got := conditionOf(status, v1alpha1.ConditionDatastoresBound)
			if got.Status != row.status || got.Reason != row.reason {
				t.Errorf("DatastoresBound is %s %s, want %s %s", got.Status, got.Reason, row.status, row.reason)
			}
			if is := readyCondition(status).Status == isTrue; is != row.ready {
				t.Errorf("Ready is %s %s", readyCondition(status).Status, readyCondition(status).Reason)
			}
			if is := conditionOf(status, v1alpha1.ConditionStalled).Status == isTrue; is != row.stalled {
				t.Errorf("Stalled is %v, want %v", is, row.stalled)
			}
		})
	}
}

func TestTheNextVerdictIsAwaited(t *testing.T) {
	in := given(settled, ready(1), func(in *workspace.Input) { in.Recheck = time.Minute })
	if got := workspace.Make(in).After; got != time.Minute {
		t.Errorf("the plan looks again after %s, want when the verdict changes", got)
	}
}
