// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"net/http"
)

// outcome is what became of one request, and a label of metrics.
type outcome string

const (
	accepted    outcome = "accepted"     // 2xx
	duplicate   outcome = "duplicate"    // 409: accepted before, which is a success
	notModified outcome = "not_modified" // 304 to a GET with an ETag
	throttled   outcome = "throttled"    // 429 and 503: later
	refused     outcome = "refused"      // any other 4xx: never
	failed      outcome = "failed"       // 5xx, and what no server of this protocol answers: later
	unreachable outcome = "unreachable"  // no answer
	noIdentity  outcome = "no_identity"  // not sent: there is no key to sign with
	malformed   outcome = "malformed"    // a GET was answered with something else than the protocol has
)

// classify decides once what each status means. Source: contract §5.
func classify(status int) outcome {
	switch {
	case status >= 200 && status < 300:
		return accepted
	case status == http.StatusConflict:
		return duplicate
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return throttled
	case status >= 400 && status < 500:
		return refused
	case status == http.StatusNotModified:
		return notModified
	default: // 5xx, and redirects, which are not followed: a signed request goes where the operator was told to send it
		return failed
	}
}

// settled says that an envelope need not be sent again.
func (o outcome) settled() bool { return o == accepted || o == duplicate || o == refused }

// healthy says that Cluster Control does its work: refusing a request is part of it.
func (o outcome) healthy() bool { return o.settled() || o == notModified }
