// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// withPassword is a credentials Secret that we have put a key into.
func withPassword(in *workspace.Input) {
	in.Children.Credentials.Ours.WithData(map[string][]byte{"PG_PASSWORD": []byte("hunter2")})
	in.Children.Credentials.Live.Data = map[string][]byte{"PG_PASSWORD": []byte("hunter2")}
}

func noFinalizer(in *workspace.Input) { in.Workspace.Finalizers = []string{"example.com/theirs"} }

func TestTheFinalizerComesBeforeTheFirstChild(t *testing.T) {
	if got := workspace.Make(given(noFinalizer)).Finalizer; got != reconcile.FinalizerAdd {
		t.Errorf("finalizer %d, want it to be added", got)
	}
	if got := workspace.Make(given()).Finalizer; got != reconcile.FinalizerKeep {
		t.Errorf("finalizer %d, want it to be kept", got)
	}
}

func TestDeletionFreezesTheCredentialsAndLetsGo(t *testing.T) {
	for name, row := range map[string]struct {
		options   []option
		finalizer reconcile.Finalizer
		writes    []string
	}{
		"a workspace that ran": {
			[]option{settled, ready(1), withPassword, deleted}, reconcile.FinalizerRemove, []string{"Secret if uid-of-Secret"},
		},
		"one whose class is gone": {
			[]option{settled, ready(1), withPassword, noClass, deleted}, reconcile.FinalizerRemove, []string{"Secret if uid-of-Secret"},
		},
		"one that belongs to another cluster": {
			[]option{settled, cluster("sby-1"), deleted}, reconcile.FinalizerRemove, []string{"Secret if uid-of-Secret"},
		},
		"one whose other names are taken": {
			[]option{settled, func(in *workspace.Input) { in.Children.Service.Live.OwnerReferences = nil }, deleted},
			reconcile.FinalizerRemove,
			[]string{"Secret if uid-of-Secret"},
		},
		"one whose credentials are marked already": {
			[]option{settled, cluster("sby-1"), settled, deleted}, reconcile.FinalizerRemove, nil,
		},
		"one whose credentials are a stranger's": {
			[]option{settled, func(in *workspace.Input) { in.Children.Credentials.Live.Annotations = nil }, deleted}, reconcile.FinalizerRemove, nil,
		},
		"one that never started": {
			[]option{deleted}, reconcile.FinalizerRemove, nil,
		},
		"one that waits for others only": {
			[]option{settled, noFinalizer, deleted}, reconcile.FinalizerKeep, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(row.options...)
			plan := workspace.Make(in)
			if plan.Finalizer != row.finalizer || !slices.Equal(writes(plan), row.writes) || len(plan.Delete) > 0 {
				t.Errorf("finalizer %d, writes %q, deletes %v; want finalizer %d and writes %q: owner references take the rest",
					plan.Finalizer, writes(plan), plan.Delete, row.finalizer, row.writes)
			}
			if plan.Status.Phase != v1alpha1.PhaseTerminating {
				t.Errorf("phase %s, want Terminating", plan.Status.Phase)
			}
		})
	}
}

func TestFrozenCredentialsKeepWhatTheyHold(t *testing.T) {
	in := given(settled, ready(1), withPassword, deleted, planned)
	secret := in.Children.Credentials.Live
	if got := string(secret.Data["PG_PASSWORD"]); got != "hunter2" {
		t.Errorf("the password is %q, want it as it was", got)
	}
	if secret.Labels[v1alpha1.LabelRetained] != "true" || len(secret.OwnerReferences) > 0 {
		t.Errorf("labels %v, owners %v; want the mark and no owner", secret.Labels, secret.OwnerReferences)
	}
	if secret.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy || secret.Annotations[v1alpha1.AnnotationWorkspaceName] != "shop" {
		t.Errorf("labels %v, annotations %v; want those by which the next workspace of the name adopts it", secret.Labels, secret.Annotations)
	}

	next := given(object(func(ws *v1alpha1.Workspace) { ws.UID = "uid-of-the-next-shop" }))
	next.Children.Credentials = in.Children.Credentials
	plan := workspace.Make(next)
	if got := writes(plan); len(got) == 0 || got[0] != "Secret if uid-of-Secret" {
		t.Fatalf("the next workspace of the name writes %q, want it to adopt the Secret first", got)
	}
	next = then(next, settled)
	if adopted := next.Children.Credentials.Live; adopted.UID != secret.UID || adopted.Labels[v1alpha1.LabelRetained] != "" {
		t.Errorf("Secret %s with labels %v, want the same one without its mark", adopted.UID, adopted.Labels)
	}
	if _, kept := next.Children.Credentials.Live.Data["PG_PASSWORD"]; kept {
		t.Error("the adopted Secret has a key without an approved claim")
	}
}

// TestRetain is for a workspace that vanished while nobody held its finalizer.
func TestRetain(t *testing.T) {
	for name, row := range map[string]struct {
		change option
		want   bool
	}{
		"a Secret of the operator's": {func(*workspace.Input) {}, true},
		"one that is marked":         {func(in *workspace.Input) { in.Children.Credentials.Live.Labels[v1alpha1.LabelRetained] = "true" }, false},
		"one of another workspace": {func(in *workspace.Input) {
			in.Children.Credentials.Live.Annotations[v1alpha1.AnnotationWorkspaceName] = "sh.op"
		}, false},
		"one that is not the operator's": {func(in *workspace.Input) { delete(in.Children.Credentials.Live.Labels, v1alpha1.LabelManagedBy) }, false},
		"one that belongs to somebody":   {func(in *workspace.Input) { ownedBy(in.Children.Credentials.Live, "uid-of-somebody") }, false},
		"none at all":                    {func(in *workspace.Input) { in.Children.Credentials = workspace.Secret{} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := given(settled, withPassword, row.change)
			before := asJSON(in.Children.Credentials)
			write := workspace.Retain("shop", in.Children.Credentials)
			if (write != nil) != row.want {
				t.Fatalf("write %v, want one: %v", write, row.want)
			}
			if after := asJSON(in.Children.Credentials); before != after {
				t.Errorf("the cached Secret was changed:\n%s\n%s", before, after)
			}
			if write == nil {
				return
			}
			plan := workspace.Plan{Apply: nil, Status: in.Workspace.Status}
			plan.Apply = append(plan.Apply, *write)
			execute(&in, plan)
			secret := in.Children.Credentials.Live
			if secret.Labels[v1alpha1.LabelRetained] != "true" || string(secret.Data["PG_PASSWORD"]) != "hunter2" || metav1.GetControllerOf(secret) != nil {
				t.Errorf("left behind: %s, want the data, the mark and no owner", asJSON(secret))
			}
			if again := workspace.Retain("shop", in.Children.Credentials); again != nil {
				t.Errorf("it is written again: %s", asJSON(again.Config))
			}
		})
	}
}

func TestADeletionThatIsHeldUpSaysWhy(t *testing.T) {
	in := given(settled, ready(1), deleted, refused(reconcile.Refused("a write is refused", "denied by policy")))
	status := workspace.Make(in).Status
	for kind, c := range map[string]metav1.Condition{"Ready": readyCondition(status), "Stalled": conditionOf(status, v1alpha1.ConditionStalled)} {
		if c.Reason != v1alpha1.ReasonTerminating || !strings.Contains(c.Message, "is being deleted") || !strings.Contains(c.Message, "denied by policy") {
			t.Errorf("%s is %s, want it to say that the workspace is going and what holds that up", kind, asJSON(c))
		}
	}
	if status.Phase != v1alpha1.PhaseTerminating {
		t.Errorf("phase %s, want Terminating", status.Phase)
	}
}
