// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"slices"
	"strconv"
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// The keys of the managed Secret, as far as they come from the connection string.
const (
	KeyURI      = "uri"
	KeyHost     = "host"
	KeyPort     = "port"
	KeyUser     = "user"
	KeyPassword = "password"
	KeyDatabase = "database"
	KeyCA       = "ca.crt"
)

// Parts are the values for applications that want them apart, decoded; all are secret. A part that the connection string
// does not have has no key. With several hosts, host and port are those of the first one, and the URI has them all.
func (e Endpoint) Parts() map[string][]byte {
	p := e.get()
	parts := map[string][]byte{}
	add := func(key, value string) {
		if value != "" {
			parts[key] = []byte(value)
		}
	}
	add(KeyURI, e.URI())
	if len(p.hosts) > 0 {
		add(KeyHost, p.hosts[0].Host)
		if p.hosts[0].Port != 0 {
			add(KeyPort, strconv.Itoa(int(p.hosts[0].Port)))
		}
	}
	add(KeyUser, p.user)
	add(KeyPassword, p.password)
	add(KeyDatabase, p.database)
	add(KeyCA, string(p.ca))
	return parts
}

// URI is the connection string in URL form, secrets included, with every byte percent-encoded that means anything
// anywhere. Parse makes an equal Endpoint of it. The drivers without a server have theirs unchanged.
func (e Endpoint) URI() string { return e.get().uri() }

// ReadOnlyURI is the URI of a session that begins read-only, and false for drivers that have no such thing. It keeps an
// application from writing by mistake, not one that wants to: that takes a role which may not.
func (e Endpoint) ReadOnlyURI() (string, bool) {
	p := *e.get()
	if p.driver != v1alpha1.DriverPostgres {
		return "", false
	}
	const setting = "-c default_transaction_read_only=on"
	p.options = slices.Clone(p.options)
	i := slices.IndexFunc(p.options, func(o option) bool { return o.name == "options" })
	if i < 0 {
		p.options = append(p.options, option{name: "options", value: setting})
	} else {
		p.options[i].value += " " + setting // the last one counts
	}
	return p.uri(), true
}

func (p *parsed) uri() string {
	if p.text != "" || p.driver == "" {
		return p.text
	}
	before := p.scheme + "://"
	if p.user != "" || p.password != "" {
		before += encode(p.user)
		if p.password != "" {
			before += ":" + encode(p.password)
		}
		before += "@"
	}
	var b strings.Builder
	b.WriteString(before)
	if p.driver == v1alpha1.DriverNATS {
		b.WriteString(strings.Join(p.hostNames(), ","+before)) // its clients expect a list of URLs
	} else {
		b.WriteString(strings.Join(p.hostNames(), ","))
	}
	switch {
	case p.path != "":
		b.WriteString("/" + p.path)
	case p.database != "":
		b.WriteString("/" + encode(p.database))
	}
	for i, o := range p.options {
		if i == 0 {
			b.WriteString("?")
		} else {
			b.WriteString("&")
		}
		b.WriteString(encode(o.name) + "=" + encode(o.value))
	}
	return b.String()
}
