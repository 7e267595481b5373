// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// subject is an object of ours, as far as its conditions go.
type subject struct {
	name                 string
	generation, observed int64
	conditions           []metav1.Condition
}

func workspaceSubject(ws *v1alpha1.Workspace) subject {
	return subject{"Workspace " + ws.Name, ws.Generation, ws.Status.ObservedGeneration, ws.Status.Conditions}
}

func datastoreSubject(ds *v1alpha1.Datastore) subject {
	return subject{"Datastore " + ds.Name, ds.Generation, ds.Status.ObservedGeneration, ds.Status.Conditions}
}

func claimSubject(claim *v1alpha1.ResourceClaim) subject {
	return subject{"ResourceClaim " + claim.Name, claim.Generation, claim.Status.ObservedGeneration, claim.Status.Conditions}
}

// has returns an error unless the condition is that of the present generation. An empty reason is any.
func (o subject) has(conditionType string, status metav1.ConditionStatus, reason string, texts ...string) error {
	c := meta.FindStatusCondition(o.conditions, conditionType)
	switch {
	case c == nil:
		return fmt.Errorf("%s has no condition %s", o.name, conditionType)
	case o.observed != o.generation, c.ObservedGeneration != o.generation:
		return fmt.Errorf("%s has generation %d, its status %d and its condition %s %d",
			o.name, o.generation, o.observed, conditionType, c.ObservedGeneration)
	case c.Status != status, reason != "" && c.Reason != reason:
		return fmt.Errorf("%s has %s=%s %s: %s", o.name, c.Type, c.Status, c.Reason, c.Message)
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			return fmt.Errorf("the message of %s of %s lacks %q: %s", c.Type, o.name, text, c.Message)
		}
	}
	return nil
}

// lacks returns an error if the subject has the condition.
func (o subject) lacks(conditionType string) error {
	if c := meta.FindStatusCondition(o.conditions, conditionType); c != nil {
		return fmt.Errorf("%s has %s=%s %s: %s", o.name, c.Type, c.Status, c.Reason, c.Message)
	}
	return nil
}
