// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func TestRedial(t *testing.T) {
	refused := errors.New("connection refused")
	outage := func(duration time.Duration) func(context.Context, string, string) (net.Conn, error) {
		start := time.Now()
		return func(context.Context, string, string) (net.Conn, error) {
			if time.Since(start) < duration {
				return nil, refused
			}
			return &net.TCPConn{}, nil
		}
	}

	t.Run("a short or long outage is over soon after it ends", func(t *testing.T) {
		for _, duration := range []time.Duration{0, time.Second, 20 * time.Second, 10 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				conn, err := redial(outage(duration))(t.Context(), "tcp", "api:443")
				if conn == nil || err != nil {
					t.Fatalf("after an outage of %s: %v, %v", duration, conn, err)
				}
				if late := time.Since(start) - duration; late > 2*redialPeriod {
					t.Errorf("after an outage of %s it took %s", duration, late)
				}
			})
		}
	})

	t.Run("it ends when nobody waits any more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start := time.Now()
			conn, err := redial(outage(time.Hour))(ctx, "tcp", "api:443")
			if conn != nil || !errors.Is(err, refused) || time.Since(start) != 10*time.Second {
				t.Errorf("%v, %v after %s, want the last error after 10s", conn, err, time.Since(start))
			}
		})
	})
}
