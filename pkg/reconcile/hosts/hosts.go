// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hosts decides whose a DNS name is. Names are claimed by Workspace.spec.hosts, across all namespaces, so the decision is made over
// all Workspaces at once, and by the one function here: the activator routes by it, and the operator tells those who lose.
package hosts

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Refusal is a host that a Workspace claims and does not get.
type Refusal struct {
	// Host is the name as the Workspace has it.
	Host string
	// Suffixes are those that the class allows. They matter only if Owner is empty. Empty: the class allows none, or is missing.
	Suffixes []string
	// Owner is the Workspace that has the host. Empty: the host is under none of the class's suffixes. Another tenant must not learn
	// this name: say only that the host is taken, unless the namespaces are the same.
	Owner types.NamespacedName
}

// Decision is the result of Accept.
type Decision struct {
	// Accepted has the owner of each accepted host.
	Accepted map[string]types.NamespacedName
	// Refused has what each Workspace claims in vain, in the order of its spec. A Workspace that gets everything is not in it.
	Refused map[types.NamespacedName][]Refusal
}

// Changed says whether an update of a Workspace can change who has which host.
func Changed(old, cur *v1alpha1.Workspace) bool {
	return old.UID != cur.UID || old.Spec.ClusterClass != cur.Spec.ClusterClass || !slices.Equal(old.Spec.Hosts, cur.Spec.Hosts) ||
		!slices.Equal(old.Status.Hosts, cur.Status.Hosts)
}

// Accept decides on the hosts of all workspaces. A host is accepted under a suffix that the Workspace's class allows, below it and not at
// it: the suffix itself belongs to whoever defines the class. Of several claims the oldest wins: that of who has the host already, by
// status.hosts, and among those who claim it anew that of the oldest Workspace, by (creation time, namespace, name), the order in which
// slots are given out. suffixes returns the hostSuffixes of a class, nil for a class that is missing.
//
// Source: contract §6.
func Accept(workspaces []*v1alpha1.Workspace, suffixes func(class string) []string) Decision {
	claims := slices.Clone(workspaces)
	slices.SortFunc(claims, older)
	d := Decision{Accepted: map[string]types.NamespacedName{}, Refused: map[types.NamespacedName][]Refusal{}}
	for _, ws := range claims {
		for _, host := range ws.Status.Hosts {
			if _, taken := d.Accepted[host]; !taken && slices.Contains(ws.Spec.Hosts, host) && under(host, suffixes(ws.Spec.ClusterClass)) {
				d.Accepted[host] = types.NamespacedName{Namespace: ws.Namespace, Name: ws.Name}
			}
		}
	}
	for _, ws := range claims {
		if len(ws.Spec.Hosts) == 0 {
			continue
		}
		key := types.NamespacedName{Namespace: ws.Namespace, Name: ws.Name}
		allowed := suffixes(ws.Spec.ClusterClass)
		for _, host := range ws.Spec.Hosts {
			owner, taken := d.Accepted[host]
			switch {
			case !under(host, allowed):
				d.Refused[key] = append(d.Refused[key], Refusal{Host: host, Suffixes: allowed})
			case taken && owner != key:
				d.Refused[key] = append(d.Refused[key], Refusal{Host: host, Owner: owner})
			default:
				d.Accepted[host] = key
			}
		}
	}
	return d
}

func older(a, b *v1alpha1.Workspace) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

func under(host string, suffixes []string) bool {
	return slices.ContainsFunc(suffixes, func(suffix string) bool {
		label, ok := strings.CutSuffix(host, "."+suffix)
		return ok && label != ""
	})
}
