// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// inForce says whether a claim gives the Workspace its datastore, once there are credentials.
func (in Input) inForce(b Binding) bool { return b.Approved || in.standsIn(b) }

// sharers are the datastores with claims in force, sorted, by the beginning of their variables' names. The first has the variables and the
// others are refused: names do not change, so the variables mean the same datastore whatever comes, goes and comes back. It has them before
// it has credentials, and a claim that nobody has signed takes nothing from anybody. Source: contract §4.
func (in Input) sharers() map[string][]string {
	sharers := map[string][]string{}
	for _, b := range in.Bindings {
		if name := variable(b.Claim.Spec.Datastore); in.inForce(b) && !slices.Contains(sharers[name], b.Claim.Spec.Datastore) {
			sharers[name] = append(sharers[name], b.Claim.Spec.Datastore)
		}
	}
	for _, datastores := range sharers {
		slices.Sort(datastores)
	}
	return sharers
}

// nameCollision says which datastores are granted and not injected, because another has their variables. Nil: none.
func (in Input) nameCollision() *verdict {
	sharers := in.sharers()
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(sharers)) {
		if datastores := sharers[name]; len(datastores) > 1 {
			problems = append(problems, collision(name, datastores))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &verdict{metav1.ConditionTrue, v1alpha1.ReasonNameCollision, strings.Join(problems, "; "), false}
}

// collision tells people about datastores that share their variables.
func collision(name string, datastores []string) string {
	quoted := make([]string, 0, len(datastores))
	for _, datastore := range datastores {
		quoted = append(quoted, fmt.Sprintf("%q", datastore))
	}
	return fmt.Sprintf("datastores %s have the same variables FORMSPEC_%s_…: they are those of %s, whose name sorts first, and the others are not injected. "+
		"Register all but one under other names, or delete their claims", strings.Join(quoted, ", "), name, quoted[0])
}
