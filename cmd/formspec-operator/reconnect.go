// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/controllers/lead"
)

// redialPeriod is the time between two tries to reach the API server, before jitter.
const redialPeriod = time.Second

// readConfig is for the clients that list and watch. While the API server is away their requests wait here for a connection. Informers that
// see each failure try ever less often, and would find out only up to a minute after it has come back.
func readConfig(config *rest.Config) *rest.Config {
	read := rest.CopyConfig(config)
	read.Dial = redial(newDialer().DialContext)
	return read
}

// newDialer is client-go's own.
func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
}

// redial returns a dialer that tries until it has a connection or nobody wants it any more. It tells once that the other side is away,
// and that it is back.
func redial(dial lead.DialFunc) lead.DialFunc {
	var away atomic.Bool
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		for {
			conn, err := dial(ctx, network, address)
			if err == nil {
				if away.CompareAndSwap(true, false) {
					klog.FromContext(ctx).Info("The API server is back", "address", address)
				}
				return conn, nil
			}
			if ctx.Err() != nil {
				return nil, err
			}
			if away.CompareAndSwap(false, true) {
				klog.FromContext(ctx).Info("The API server is away, trying until it answers", "address", address, "err", err)
			}
			select {
			case <-ctx.Done():
				return nil, err
			case <-time.After(wait.Jitter(redialPeriod, 0.5)):
			}
		}
	}
}
