// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

func TestKept(t *testing.T) {
	handed := func(b workspace.Binding) map[string][]byte {
		return written[*corev1ac.SecretApplyConfiguration](t, given(bound(b))).Data
	}
	password := func(b *workspace.Binding) { b.Credentials.Data["password"] = []byte("new") }
	user := func(name string) func(*workspace.Binding) {
		return func(b *workspace.Binding) { b.Credentials.Data["user"] = []byte(name) }
	}
	reader := func(b *workspace.Binding) {
		b.Credentials.Data["read-only-user"], b.Credentials.Data["read-only-password"] = []byte("reader"), []byte("reads")
	}
	for name, row := range map[string]struct {
		had  map[string][]byte
		now  workspace.Binding
		want string // the password; empty: nothing
	}{
		"it had nothing":               {nil, binding("pg"), ""},
		"it had another datastore's":   {handed(binding("another")), binding("pg"), ""},
		"it had them":                  {handed(binding("pg")), binding("pg"), "pw"},
		"there is a new password":      {handed(binding("pg")), binding("pg", password), "new"},
		"another user took over":       {handed(binding("pg")), binding("pg", user("super"), password), "pw"},
		"it had a login of its own":    {handed(binding("pg", user("claim_x"))), binding("pg"), ""},
		"it may read only from now on": {handed(binding("pg")), binding("pg", reader, readOnly), ""},
		"it read only until now":       {handed(binding("pg", reader, readOnly)), binding("pg", reader), ""},
		"it reads only":                {handed(binding("pg", reader, readOnly)), binding("pg", reader, readOnly), "reads"},
	} {
		t.Run(name, func(t *testing.T) {
			isLogin := func(user string) bool { return strings.HasPrefix(user, "claim_") }
			kept := workspace.Kept(row.now.Claim, row.now.Credentials, row.had, isLogin)
			if kept == nil {
				if row.want != "" {
					t.Error("nothing is kept")
				}
				return
			}
			row.now.Credentials = kept
			got := handed(row.now)
			if string(got["FORMSPEC_DATASTORE_PG_PASSWORD"]) != row.want {
				t.Errorf("it has the keys %v, want the password %q", slices.Sorted(maps.Keys(got)), row.want)
			}
		})
	}
}
