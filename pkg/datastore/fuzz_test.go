// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
)

var drivers = []v1alpha1.Driver{
	pg, rd, vk, s3, natsio, v1alpha1.DriverGarage, v1alpha1.DriverMinIO, v1alpha1.DriverSQLite, v1alpha1.DriverFS, v1alpha1.DriverMemory,
}

// FuzzParse writes a marker where passwords are, and whatever it likes around it.
func FuzzParse(f *testing.F) {
	const marker = "hunter2"
	for i := range drivers {
		for _, text := range []string{
			"postgres://u:%s@h:abc/db", "postgres://u:p%%SS%s@h/db", "postgres://h/db?user=u&password=%s", "postgres://u:%s@h/db\n",
			"host=h user=u password='%s' sslmode=require", "redis://:%s@[::1]:1/2", "https://k:%s@h/b", "nats://%s@a,nats://b", "file:/x?k=%s",
			"postgres://u:%s@a:1,b/db?options=-c%%20x", "%s", "://%s", "postgres://u:%s/x@h", "postgres://u:1?%s@h",
		} {
			before, after, _ := strings.Cut(fmt.Sprintf(text, marker), marker)
			f.Add(i, before, after)
		}
	}
	f.Fuzz(func(t *testing.T, index int, before, after string) {
		driver := drivers[uint(index)%uint(len(drivers))]
		text := before + marker + after
		e, err := datastore.Parse(driver, text, nil)
		if err != nil {
			var refused *datastore.Error
			if !errors.As(err, &refused) || refused.Reason == "" {
				t.Fatalf("not one of ours: %v", err)
			}
			if strings.Contains(printed(t, err), marker) || !e.IsZero() {
				t.Fatalf("%q: the error is %v", text, err)
			}
			return
		}
		// Hosts and databases are printed. In all else, a secret may not be.
		shown := strings.Contains(e.Database(), marker)
		for _, host := range e.Hosts() {
			shown = shown || strings.Contains(host.Host, marker)
		}
		if !shown && strings.Contains(printed(t, e), marker) {
			t.Fatalf("%q is printed as %v", text, e)
		}
		again, err := datastore.Parse(driver, e.URI(), nil)
		if err != nil {
			t.Fatalf("%q: its URI %q is refused: %v", text, e.URI(), err)
		}
		if again.User() != e.User() || again.Password() != e.Password() || again.Database() != e.Database() || again.URI() != e.URI() {
			t.Fatalf("%q: its URI %q is read as something else", text, e.URI())
		}
		if uri, ok := e.ReadOnlyURI(); ok {
			if _, err := datastore.Parse(driver, uri, nil); err != nil {
				t.Fatalf("%q: its read-only URI is refused: %v", text, err)
			}
		}
	})
}
