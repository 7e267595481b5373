// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import "github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"

// Error says why a connection string is not used. Its message is one of the sentences of this package and holds nothing
// of the connection string, so it may go into a status, an event or a log.
type Error struct {
	// Reason is one of the v1alpha1.Reason constants.
	Reason string
	// Message is for people.
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// invalid is the error for a connection string that is not understood. The message must be a constant, or made from
// names that this package knows.
func invalid(message string) error {
	return &Error{Reason: v1alpha1.ReasonInvalidConnectionString, Message: message}
}

func unsupportedOption(message string) error {
	return &Error{Reason: v1alpha1.ReasonUnsupportedOption, Message: message}
}

func unsupportedTLSMode(message string) error {
	return &Error{Reason: v1alpha1.ReasonUnsupportedTLSMode, Message: message}
}

// What is wrong in more than one form.
var (
	errEncode = invalid("the connection string has a character that must be percent-encoded: " +
		"in users, passwords, database names and options, percent-encode everything but letters, digits and -._~")
	errPercent = invalid("the connection string has a % that two hex digits do not follow: percent-encode a literal % as %25")
	errNUL     = invalid("the connection string has a NUL character")
	errNoHost  = invalid("the connection string names no host")
	errHost    = invalid("the connection string has a host that is neither a host name nor an IP address; " +
		"an IPv6 address in a URL needs brackets, and special characters in the user or password must be percent-encoded")
	errSocket = invalid("the connection string names a Unix socket, and those do not leave their machine: name a host")
	errPort   = invalid("the connection string has a port that is not a number from 1 to 65535; " +
		"special characters in the user or password must be percent-encoded")
	errPorts = invalid("the connection string has neither one port nor as many ports as hosts")
	errTwice = invalid("the connection string gives one thing twice")
)
