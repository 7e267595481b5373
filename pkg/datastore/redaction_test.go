// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/yaml"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

// printed is a value in every way in which this program prints values.
func printed(t *testing.T, value any) string {
	t.Helper()
	var b bytes.Buffer
	// Inside a structure, without the methods of the value itself.
	hidden := struct{ value any }{value}
	for _, v := range []any{value, &value, hidden, &hidden, []any{value}, map[string]any{"k": value}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%08.3f", "%c", "%U", "%e"} {
			fmt.Fprintf(&b, verb+"\n", v)
		}
		fmt.Fprintln(&b, v)
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal, xml.Marshal} {
		text, err := marshal(value)
		fmt.Fprintf(&b, "%s %v\n", text, err)
	}
	slog.New(slog.NewTextHandler(&b, nil)).Info("text", "value", value, "in", hidden)
	slog.New(slog.NewJSONHandler(&b, nil)).Info("json", "value", value, "in", hidden)
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&b), textlogger.Verbosity(10)))
	logger.Info("klog", "value", value, "in", hidden)
	logger.WithValues("value", value).Error(errors.New("failed"), "klog", "object", klog.KRef("namespace", "name"))
	return b.String()
}

// hex is how %x would show it.
func hex(s string) string { return fmt.Sprintf("%x", s) }

func TestNothingPrintsASecret(t *testing.T) {
	for driver, texts := range map[v1alpha1.Driver][]string{
		pg: {
			"postgres://hunter2:hunter2@h/db?application_name=hunter2&x=hunter2", "host=h user=hunter2 password=hunter2",
			"postgres://u:p@h/postgres%3A%2F%2Fu%3Ahunter2%40h", "host=h user=u dbname='user=u password=hunter2'",
		},
		rd:                    {"redis://hunter2:hunter2@h/1?x=hunter2"},
		s3:                    {"https://hunter2:hunter2@h/bucket?secret=hunter2", "https://h/hunter2/hunter2"},
		natsio:                {"nats://hunter2@h"},
		v1alpha1.DriverSQLite: {"file:/x.db?_auth_pass=hunter2", "/data/hunter2"},
		v1alpha1.DriverMemory: {"hunter2"},
	} {
		for _, text := range texts {
			e, err := datastore.Parse(driver, text, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, out := range []string{printed(t, e), printed(t, &e), printed(t, struct{ E datastore.Endpoint }{e})} {
				for _, secret := range []string{"hunter2", hex("hunter2"), strings.ToUpper(hex("hunter2"))} {
					if at := strings.Index(out, secret); at >= 0 {
						t.Errorf("%s is printed as %s", text, out[max(0, at-80):at+20])
					}
				}
			}
			if !strings.Contains(e.URI(), "hunter2") {
				t.Errorf("the URI of %s lost it, so that this test proves nothing", text)
			}
		}
	}
}

func TestAnEndpointPrintsDriverHostsAndDatabase(t *testing.T) {
	e, err := datastore.Parse(pg, "postgres://u:p@db.example:5433,[::1]/bank", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%v", e), "postgres://db.example:5433,[::1]/bank"; got != want {
		t.Errorf("%%v prints %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf("%#v", e), `datastore.Endpoint("postgres://db.example:5433,[::1]/bank")`; got != want {
		t.Errorf("%%#v prints %s, want %s", got, want)
	}
	if got, _ := json.Marshal(e); string(got) != `{"driver":"postgres","hosts":["db.example:5433","[::1]"],"database":"bank"}` {
		t.Errorf("JSON is %s", got)
	}
	if got := datastore.Endpoint.String(datastore.Endpoint{}); got != "" {
		t.Errorf("the zero endpoint prints %q", got)
	}
}
