// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/hosts"
)

// acceptedHosts are those of spec.hosts that lead to the workspace.
func (in Input) acceptedHosts() []string {
	return slices.DeleteFunc(slices.Clone(in.Workspace.Spec.Hosts), func(host string) bool {
		return slices.ContainsFunc(in.Hosts, func(r hosts.Refusal) bool { return r.Host == host })
	})
}

// hostsAccepted says whether each host of the workspace leads to it. Nil: it claims none. A conflict is told before what the class does not
// allow; whose the host is, only within the namespace.
func (in Input) hostsAccepted() *verdict {
	if len(in.Workspace.Spec.Hosts) == 0 {
		return nil
	}
	if len(in.Hosts) == 0 {
		return &verdict{metav1.ConditionTrue, v1alpha1.ReasonHostsAccepted, "each host leads to the workspace", false}
	}
	reason, problems := v1alpha1.ReasonHostNotAllowed, make([]string, 0, len(in.Hosts))
	for _, refused := range in.Hosts {
		switch {
		case refused.Owner.Name != "" && refused.Owner.Namespace == in.Workspace.Namespace:
			reason = v1alpha1.ReasonHostConflict
			problems = append(problems, fmt.Sprintf("%q belongs to Workspace %q, which claimed it earlier", refused.Host, refused.Owner.Name))
		case refused.Owner.Name != "":
			reason = v1alpha1.ReasonHostConflict
			problems = append(problems, fmt.Sprintf("%q belongs to a Workspace of another namespace, which claimed it earlier", refused.Host))
		case len(refused.Suffixes) == 0:
			problems = append(problems, fmt.Sprintf("%q is refused, because ClusterClass %q has no hostSuffixes", refused.Host, in.Workspace.Spec.ClusterClass))
		default:
			problems = append(problems, fmt.Sprintf("%q is not below any of the class's hostSuffixes %s", refused.Host, strings.Join(refused.Suffixes, ", ")))
		}
	}
	return &verdict{metav1.ConditionFalse, reason, strings.Join(problems, "; ") + ". Choose other hosts; the accepted ones work", false}
}
