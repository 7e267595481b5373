// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// network is how every driver reaches its server.
type network struct {
	refuseLoopback bool
}

var errRefused = errors.New("not a connection that a probe makes")

// dial connects, and ties the connection to the context: when it ends, so does whatever waits for the server, whether
// the library in between knows of contexts or not.
func (n network) dial(ctx context.Context, host HostPort) (net.Conn, error) {
	dialer := net.Dialer{
		Resolver:  &net.Resolver{PreferGo: true}, // the C library's look-ups outlive their context
		KeepAlive: -1,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil || n.refuses(target.Addr().Unmap()) {
				return errRefused
			}
			return nil
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", host.String())
	if err != nil {
		return nil, err
	}
	bound := &boundConn{Conn: conn}
	bound.stop = context.AfterFunc(ctx, func() { conn.Close() })
	return bound, nil
}

// refuses is asked with the address itself, after every look-up. Link-local addresses are where clouds keep the
// credentials of machines; the operator's own machine is no tenant's datastore.
func (n network) refuses(address netip.Addr) bool {
	return address.IsLinkLocalUnicast() || address.IsMulticast() || address.IsUnspecified() || n.refuseLoopback && address.IsLoopback()
}

// boundConn is a connection that does not outlive its context.
type boundConn struct {
	net.Conn
	stop  func() bool
	first atomic.Int32 // the first byte that was read; 0 before
}

// Read notes the first byte: in the protocols that change their mind after it, it tells what kind of server this is.
func (c *boundConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.first.CompareAndSwap(0, int32(b[0]))
	}
	return n, err
}

// Close ends the connection now.
func (c *boundConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// eachHost tries the hosts in order until one gives an answer about the credentials. Each gets its share of the time that
// is left, so that a dead first host does not use up what the second one needs.
func eachHost(ctx context.Context, hosts []HostPort, defaultPort uint16, try func(context.Context, HostPort) Result) Result {
	var first Result
	for i, host := range hosts {
		if host.Port == 0 {
			host.Port = defaultPort
		}
		result := tryHost(ctx, host, len(hosts)-i, try)
		result.Message = host.String() + ": " + result.Message
		if !result.serverDown() {
			return result
		}
		if i == 0 {
			first = result
		}
	}
	return first
}

func tryHost(ctx context.Context, host HostPort, left int, try func(context.Context, HostPort) Result) Result {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	return try(ctx, host)
}
