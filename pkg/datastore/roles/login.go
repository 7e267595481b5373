// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

// Login is what one claim gets. The names may be any: Kubernetes' rules are not relied on.
type Login struct {
	// Cluster is the cluster's name. Clusters without one must not share a server; one that gets a name later finds its
	// workspaces' schemas no more.
	Cluster string
	// Namespace of the claim, and so of its datastore and workspace.
	Namespace string
	// Datastore, Workspace and Claim are their objects' names.
	Datastore, Workspace, Claim string
	// UID of the claim.
	UID types.UID
	// Permission of the grant. What is not read-write is read-only.
	Permission v1alpha1.Permission
	// ConnectionLimit at a time; nil for none.
	ConnectionLimit *int32
	// Password in printable ASCII, such as NewPassword returns. Whoever guesses it has the login.
	Password string
}

// NewPassword returns a random password that needs no quotes and no encoding anywhere.
func NewPassword() string { return rand.Text() }

// String is what may be shown to anybody.
func (l Login) String() string { return l.Name() + " of " + l.Owner() }

// Format answers every verb, so that none shows the password.
func (l Login) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// MarshalText is for encoders.
func (l Login) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// MarshalLog is for klog and everything else that logs through logr.
func (l Login) MarshalLog() any { return l.String() }

// LogValue is for slog.
func (l Login) LogValue() slog.Value { return slog.StringValue(l.String()) }

func (l Login) writes() bool { return l.Permission == v1alpha1.PermissionReadWrite }

func (l Login) connectionLimit() int32 {
	if l.ConnectionLimit == nil {
		return -1
	}
	return *l.ConnectionLimit
}

// identity is what the roles' comments say, for those who look at the server.
func (l Login) identity(kind, name string) string {
	text := "formspec-operator: " + kind + " " + l.Namespace + "/" + name + ", datastore " + l.Datastore
	if l.Cluster != "" {
		text += ", cluster " + l.Cluster
	}
	return text
}

// everyLogins are settings that would hold for every login, against its role's.
var everyLogins = regexp.MustCompile(`(?i)(^|[^a-z_])(role|session[-_]authorization|search[-_]path|default[-_]transaction[-_]read[-_]only)\s*=`)

// check refuses what cannot be made safe.
func (l Login) check(admin datastore.Endpoint) error {
	switch {
	case l.Password == "" || strings.ContainsFunc(l.Password, func(r rune) bool { return r < ' ' || r > '~' }):
		return &datastore.Error{Reason: v1alpha1.ReasonInternalError, Message: "the password for the login is not printable ASCII"}
	case l.ConnectionLimit != nil && *l.ConnectionLimit < 0:
		return &datastore.Error{Reason: v1alpha1.ReasonInvalidSpec, Message: "the limit of connections is negative"}
	case everyLogins.MatchString(admin.Option("options")):
		return &datastore.Error{
			Reason: v1alpha1.ReasonUnsupportedOption,
			Message: "the option options sets a role, a search path or read-only transactions, and with roles PerClaim each login has its own: " +
				"set them for the endpoint's user instead, with ALTER ROLE",
		}
	}
	return nil
}
