// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Endpoint is a connection string, understood. It is immutable, made by Parse, and safe to print in any way: every
// formatter is answered with driver, hosts and database. Compare with Equal.
type Endpoint struct {
	// parsed is a function because fmt does not ask the methods of what it finds in another structure's unexported field,
	// and follows pointers there for a verb that does not fit. It cannot look into a function.
	parsed func() *parsed
}

// HostPort is one server of an endpoint.
type HostPort struct {
	// Host is a name, or an IP address without brackets.
	Host string
	// Port is 0 if the connection string has none.
	Port uint16
}

// String is the host with the port, if there is one, as in a URL.
func (h HostPort) String() string {
	if h.Port != 0 {
		return net.JoinHostPort(h.Host, strconv.Itoa(int(h.Port)))
	}
	if strings.Contains(h.Host, ":") {
		return "[" + h.Host + "]"
	}
	return h.Host
}

// parsed is everything that a connection string says.
type parsed struct {
	driver   v1alpha1.Driver
	scheme   string // as given, in lower case; "postgresql" for the keyword form
	hosts    []HostPort
	user     string
	password string
	database string // a database number for redis, a bucket for object stores
	path     string // of object stores below a path of several segments: that path, still encoded
	options  []option
	text     string // of the drivers that are only checked by form: the connection string as it is
	ca       []byte // certificates in PEM, and nothing else
	trimmed  bool
}

// option is a setting after the "?" of a URL, or one of the keyword form that is not about hosts, users and databases.
type option struct{ name, value string }

func (p *parsed) option(name string) string {
	for _, o := range p.options {
		if o.name == name {
			return o.value
		}
	}
	return ""
}

// get makes the methods work on the zero Endpoint.
func (e Endpoint) get() *parsed {
	if e.parsed == nil {
		return &parsed{}
	}
	return e.parsed()
}

// IsZero is true for the Endpoint that Parse did not make.
func (e Endpoint) IsZero() bool { return e.parsed == nil }

// Equal is true if both were made from connection strings that say the same, and trust the same authorities.
func (e Endpoint) Equal(other Endpoint) bool {
	a, b := *e.get(), *other.get()
	a.trimmed, b.trimmed = false, false
	return reflect.DeepEqual(a, b)
}

// Driver is the driver that the connection string was parsed for.
func (e Endpoint) Driver() v1alpha1.Driver { return e.get().driver }

// Hosts are the servers, in the order in which they are tried. The drivers that need no server have none.
func (e Endpoint) Hosts() []HostPort { return slices.Clone(e.get().hosts) }

// User is the decoded user, empty if there is none.
func (e Endpoint) User() string { return e.get().user }

// Password is the decoded password, empty if there is none. It is a secret.
func (e Endpoint) Password() string { return e.get().password }

// Database is the decoded database, empty if there is none.
func (e Endpoint) Database() string { return e.get().database }

// CA is what the Secret gave as certificate authorities, in PEM; nil if it gave none.
func (e Endpoint) CA() []byte { return slices.Clone(e.get().ca) }

// Trimmed is true if the connection string ended in line breaks, which are no part of it. People should be told.
func (e Endpoint) Trimmed() bool { return e.get().trimmed }

// String is what may be shown to anybody: driver, hosts and database.
func (e Endpoint) String() string {
	p := e.get()
	hosts := p.hostNames()
	s := string(p.driver)
	if len(hosts) > 0 {
		s += "://" + strings.Join(hosts, ",")
	}
	if database := p.printableDatabase(); database != "" {
		s += "/" + database
	}
	return s
}

// GoString is String, marked as ours.
func (e Endpoint) GoString() string { return "datastore.Endpoint(" + strconv.Quote(e.String()) + ")" }

// Format answers every verb, so that none falls back to the fields.
func (e Endpoint) Format(f fmt.State, verb rune) {
	text := e.String()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = e.GoString()
	case verb == 'q':
		text = strconv.Quote(text)
	}
	_, _ = io.WriteString(f, text)
}

// redacted is an Endpoint for encoders.
type redacted struct {
	Driver   v1alpha1.Driver `json:"driver,omitempty"`
	Hosts    []string        `json:"hosts,omitempty"`
	Database string          `json:"database,omitempty"`
}

func (e Endpoint) redacted() redacted {
	p := e.get()
	return redacted{Driver: p.driver, Hosts: p.hostNames(), Database: p.printableDatabase()}
}

// MarshalJSON is what may be shown to anybody, as an object.
func (e Endpoint) MarshalJSON() ([]byte, error) { return json.Marshal(e.redacted()) }

// MarshalLog is for klog and everything else that logs through logr.
func (e Endpoint) MarshalLog() any { return e.redacted() }

// LogValue is for slog.
func (e Endpoint) LogValue() slog.Value { return slog.StringValue(e.String()) }

func (p *parsed) hostNames() []string {
	names := make([]string, 0, len(p.hosts))
	for _, h := range p.hosts {
		names = append(names, h.String())
	}
	return names
}

var printable = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$`)

// printableDatabase is the database if it looks like the name of one. What does not may be a connection string pasted
// into the wrong place. The file names of the local drivers are nobody's business either.
func (p *parsed) printableDatabase() string {
	if p.text != "" || !printable.MatchString(p.database) {
		return ""
	}
	return p.database
}
