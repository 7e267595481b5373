// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// How long an endpoint that fails is left alone: a second, doubling to five minutes, and up to a fifth more, so that clusters which lost
// the same server do not come back in the same second.
const (
	backoffBase   = time.Second
	backoffCap    = 5 * time.Minute
	backoffJitter = 0.2

	// maxRetryAfter bounds what a server may ask for by Retry-After: a slip of the pen must not silence a cluster for days.
	maxRetryAfter = 15 * time.Minute
)

// backoff is the time to wait after so many failures in a row, from 1 on.
func backoff(failures int) time.Duration {
	return jitter(min(backoffCap, backoffBase<<min(failures-1, 20)))
}

func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*backoffJitter*float64(d)) //nolint:gosec // spreads load, guards nothing
}

// retryAfter reads the header of that name: seconds, or a date (RFC 9110, 10.2.3). 0: there is none, or it makes no sense.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if digits := strings.TrimLeft(value, "0123456789"); digits == "" {
		seconds, err := strconv.ParseInt(value, 10, 32)
		if err != nil { // more seconds than anybody waits
			return maxRetryAfter
		}
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, min(date.Sub(now), maxRetryAfter))
}
