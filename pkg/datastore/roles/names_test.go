// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/datastore/roles"
)

var hostileNames = []string{
	"", "a", "shop", "shop.bank", "shop-bank", "shop_bank", "SHOP", "-", "...", `"; drop table x; --`, `'; drop role x; --`, `a\'b`, `$1`, "$$",
	"müller", "日本", "\x00", "\xff\xfe", "a\nb", "%s%n", strings.Repeat("a", 253), strings.Repeat("a", 252) + "b", strings.Repeat("a.", 126) + "b",
	strings.Repeat("é", 200), strings.Repeat(`"`, 253), "pg_catalog", "public", "select",
}

func TestNamesAreValidAndApart(t *testing.T) {
	t.Parallel()
	plain := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	seen := map[string]string{}
	note := func(name, of string) {
		if len(name) > 63 || !plain.MatchString(name) {
			t.Errorf("%q, of %q, needs quotes or is too long", name, of)
		}
		if other, found := seen[name]; found {
			t.Errorf("%q is the name of %q and %q", name, other, of)
		}
		seen[name] = of
	}
	for _, hostile := range hostileNames {
		note(roles.Login{Workspace: hostile}.Owner(), "workspace "+hostile)
		if hostile == "" {
			continue
		}
		note(roles.Login{Namespace: hostile}.Owner(), "namespace "+hostile)
		note(roles.Login{Datastore: hostile}.Owner(), "datastore "+hostile)
		note(roles.Login{Cluster: hostile}.Owner(), "cluster "+hostile)
		note(roles.Login{Claim: hostile}.Name(), "claim "+hostile)
		note(roles.Login{Namespace: hostile}.Name(), "namespace of a claim "+hostile)
		note(roles.Login{Datastore: hostile}.Name(), "datastore of a claim "+hostile)
		note(roles.Login{Cluster: hostile}.Name(), "cluster of a claim "+hostile)
		note(roles.Login{UID: types.UID(hostile)}.Name(), "uid "+hostile)
	}
}

func TestNamesAreThoseOfEarlierVersions(t *testing.T) {
	t.Parallel()
	login := roles.Login{Cluster: "prod", Namespace: "mandiri", Datastore: "pg-bank", Workspace: "shop.eu-1", Claim: "shop-bank", UID: "7d4f"}
	if got, want := login.Owner(), "ws_shop_eu_1_thm5dfpvbf67vijh"; got != want {
		t.Errorf("got %s, want %s: workspaces would lose their tables", got, want)
	}
	if got, want := login.Name(), "claim_shop_bank_oc4hvl4gzfa2fakd"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNoPartOfAnIdentityIsTakenForTwo(t *testing.T) {
	t.Parallel()
	a := roles.Login{Namespace: "a", Datastore: "b1:c", Workspace: "w"}
	b := roles.Login{Namespace: "a4:b1:c", Workspace: "w"}
	c := roles.Login{Cluster: "a", Datastore: "b1:c", Workspace: "w"}
	if a.Name() == b.Name() || a.Name() == c.Name() {
		t.Error("a claim's login is that of another workspace")
	}
	if a.Owner() == b.Owner() || a.Owner() == c.Owner() || b.Owner() == c.Owner() {
		t.Error("two identities have one name")
	}
}

func TestALoginIsPrintedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	login := roles.Login{Workspace: "shop", Claim: "bank", Password: "hunter2"}
	encoded, err := json.Marshal(map[string]any{"login": login, "pointer": &login})
	if err != nil {
		t.Fatal(err)
	}
	out := string(encoded) + slog.AnyValue(login).Resolve().String() + fmt.Sprint(login.MarshalLog())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		out += fmt.Sprintf(verb+verb+verb, login, &login, []roles.Login{login})
	}
	if strings.Contains(out, "hunter2") || strings.Contains(out, "68756e746572") {
		t.Errorf("the password is in %s", out)
	}
}
