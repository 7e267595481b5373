// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"strings"
	"testing"
)

func TestHostName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for host, want := range map[string]string{
		"shop.bank":                     "shop.bank",
		"Shop.Bank.SVC:8080":            "shop.bank.svc",
		"shop.bank.svc.cluster.local.":  "shop.bank.svc.cluster.local",
		"shop.bank.svc.cluster.local.:": "shop.bank.svc.cluster.local",
		"shop.bank.:80":                 "shop.bank",
		"shop":                          "shop",
		"10.0.0.1:80":                   "10.0.0.1", // found nowhere
		"a_b.example.com":               "a_b.example.com",
		long + ".example.com":           long + ".example.com",

		"":                              "",
		".":                             "",
		":80":                           "",
		"shop..bank":                    "",
		".shop.bank":                    "",
		"shop.bank..":                   "",
		"shop.bank:http":                "",
		"shop.bank:80:80":               "",
		"[::1]:80":                      "",
		"::1":                           "",
		"shop bank":                     "",
		"shop/bank":                     "",
		"shöp.bank":                     "",
		"SHOP.BANK\u212a":               "", // the Kelvin sign, a K in lower case
		long + "a.example.com":          "",
		strings.Repeat("a.", 126) + "a": strings.Repeat("a.", 126) + "a",
		strings.Repeat("a.", 127) + "a": "",
		strings.Repeat("a.", 126) + "a" + ".:8080": strings.Repeat("a.", 126) + "a",
	} {
		got, ok := hostName(host)
		if got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %t, want %q", host, got, ok, want)
		}
	}
}

func TestServiceName(t *testing.T) {
	for name, want := range map[string]string{
		"shop.bank":                   "bank/shop",
		"shop.bank.svc":               "bank/shop",
		"shop.bank.svc.cluster.local": "bank/shop",
		"shop.bank.svc.corp":          "bank/shop",
		"shop":                        "",
		"shop.bank.example.com":       "",
		"shop.bank.svcs":              "",
		"shop.bank.svcs.example.com":  "",
	} {
		service, namespace, ok := serviceName(name)
		if ok != (want != "") || ok && namespace+"/"+service != want {
			t.Errorf("%q: got %s/%s, %t, want %q", name, namespace, service, ok, want)
		}
	}
}

// Whatever a client sends as Host, what comes out is a name that can be looked up and printed, and is the same the second time.
func FuzzHost(f *testing.F) {
	for _, seed := range []string{"shop.bank.svc.cluster.local:80", "SHOP.example.com.", "[::1]:80", "a:b:c", "..", "", "\x00", "shop.bank.svc."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, ok := hostName(host)
		if !ok {
			if name != "" {
				t.Fatalf("%q is refused and yields %q", host, name)
			}
			return
		}
		if len(name) > maxHost || name != strings.ToLower(name) || strings.ContainsAny(name, ":/ \t\r\n%[]\x00") {
			t.Fatalf("%q yields %q", host, name)
		}
		if !strings.HasPrefix(strings.ToLower(host), name) {
			t.Fatalf("%q yields %q, which is another name", host, name)
		}
		if again, ok := hostName(name); !ok || again != name {
			t.Fatalf("%q yields %q, and that yields %q", host, name, again)
		}
		service, namespace, ok := serviceName(name)
		if !ok {
			return
		}
		if service == "" || namespace == "" || strings.Contains(service+namespace, ".") {
			t.Fatalf("%q is Service %q in namespace %q", name, service, namespace)
		}
		if full := service + "." + namespace; name != full && !strings.HasPrefix(name, full+".svc") {
			t.Fatalf("%q is Service %q in namespace %q", name, service, namespace)
		}
	})
}
