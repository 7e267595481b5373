// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Listed is one datastore or cache that the Workspace lists.
type Listed struct {
	v1alpha1.DatastoreReference
	// Datastore of that name. Nil: there is none.
	Datastore *v1alpha1.Datastore
}

// datastoresBound says whether each listed datastore and cache has an approved claim, and what is missing where not.
func (in Input) datastoresBound() verdict {
	if len(in.Listed) == 0 {
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonNoneListed, "the workspace lists no datastore and no cache", false}
	}
	var problems []verdict
	for _, listed := range in.Listed {
		if problem := in.unbound(listed); problem != nil {
			problems = append(problems, *problem)
		}
	}
	if len(problems) == 0 {
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonBound, "each listed datastore and cache has an approved claim", false}
	}
	first := problems[0]
	messages := make([]string, 0, len(problems))
	for _, problem := range problems {
		messages = append(messages, problem.message)
	}
	return verdict{metav1.ConditionFalse, first.reason, strings.Join(messages, "; "), first.stalled}
}

// unbound says what a listed datastore lacks. Nil: nothing.
func (in Input) unbound(listed Listed) *verdict {
	no := func(reason string, stalled bool, format string, args ...any) *verdict {
		return &verdict{metav1.ConditionFalse, reason, fmt.Sprintf("datastore %q ", listed.Name) + fmt.Sprintf(format, args...), stalled}
	}
	ds := listed.Datastore
	switch {
	case ds == nil:
		return no(v1alpha1.ReasonDatastoreNotFound, false, "does not exist in the namespace: register it")
	case listed.Type != "" && listed.Type != string(ds.Spec.Driver):
		return no(v1alpha1.ReasonTypeMismatch, true, "is of driver %q and listed as %q: correct the type", ds.Spec.Driver, listed.Type)
	}
	claims := slices.DeleteFunc(slices.Clone(in.Bindings), func(b Binding) bool { return b.Claim.Spec.Datastore != listed.Name })
	if len(claims) == 0 {
		return no(v1alpha1.ReasonClaimMissing, false, "has no ResourceClaim for this workspace: its owner %q has to grant one", ds.Spec.Owner)
	}
	if slices.ContainsFunc(in.injected(), func(b Binding) bool { return b.Claim.Spec.Datastore == listed.Name }) {
		return nil
	}
	approved := slices.IndexFunc(claims, func(b Binding) bool { return b.Approved })
	if approved < 0 {
		return no(claims[0].Reason, false, "is denied by claim %q: %s", claims[0].Claim.Name, claims[0].Message)
	}
	if name := variable(listed.Name); in.sharers()[name][0] != listed.Name {
		return no(v1alpha1.ReasonNameCollision, true, "is not injected: %s", collision(name, in.sharers()[name]))
	}
	return no(v1alpha1.ReasonNotValidated, false, "has no credentials that work yet: see the conditions of the Datastore and of claim %q", claims[approved].Claim.Name)
}
