// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

// WithLogin is the same endpoint for another user: same servers, TLS, database and options.
func (e Endpoint) WithLogin(user, password string) Endpoint {
	return e.with(func(p *parsed) { p.user, p.password = user, password })
}

// WithDatabase is the same endpoint for another database of the server.
func (e Endpoint) WithDatabase(database string) Endpoint {
	return e.with(func(p *parsed) { p.database = database })
}

func (e Endpoint) with(change func(*parsed)) Endpoint {
	p := *e.get()
	change(&p)
	return Endpoint{parsed: func() *parsed { return &p }}
}

// Option is the value of an option after the "?" of the connection string, empty if it is not there. It may be a secret.
func (e Endpoint) Option(name string) string { return e.get().option(name) }
